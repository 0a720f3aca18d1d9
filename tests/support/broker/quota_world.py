"""ConnectionQuotas with Kafka's three listeners, and clocks and threads to wait with."""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from fastprod.broker.network.connection_quotas import ConnectionQuotas, ConnectionThrottledError
from fastprod.broker.network.rate_quota import UNLIMITED
from fastprod.broker.threads.clock import FakeClock

PATIENCE_S = 30.0
# Listener -> the address of its clients.
ADDRESSES = {
    "EXTERNAL": "192.168.1.1",
    "ADMIN": "192.168.1.2",
    "REPLICATION": "192.168.1.3",
}
KNOWN_HOST = "192.168.10.0"
OTHER_HOST = "192.168.2.0"


class LeapingClock(FakeClock):
    """Waiting for a time takes none: the clock leaps to the end of it."""

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        if deadline_ns is None:
            super().wait(condition, None)
        else:
            self.advance((deadline_ns - self.monotonic_ns()) / 1e6)


class World:
    """Quotas with three listeners, REPLICATION being the brokers' own, and who blocked where."""

    def __init__(self, clock: FakeClock | None = None, **limits: Any) -> None:
        listener_limits = {
            name: limits.pop(name) for name in ("listener_max", "listener_rate") if name in limits
        }
        self.clock = clock or FakeClock()
        self.blocked_ns: Counter[str] = Counter()
        self.quotas = ConnectionQuotas(
            self.clock,
            inter_broker_listener_name="REPLICATION",
            quota_window_num=2,
            quota_window_size_seconds=1,
            **limits,
        )
        for name in ADDRESSES:
            self.quotas.add_listener(
                name,
                max_connections=listener_limits.get("listener_max", UNLIMITED),
                max_connection_creation_rate=listener_limits.get("listener_rate", UNLIMITED),
            )

    def inc(self, listener: str, address: str | None = None) -> None:
        def blocked(ns: int) -> None:
            self.blocked_ns[listener] += ns

        self.quotas.inc(listener, address or ADDRESSES[listener], on_blocked=blocked)

    def dec(self, listener: str) -> None:
        self.quotas.dec(listener, ADDRESSES[listener])

    def accept(self, listener: str, count: int, address: str | None = None) -> None:
        for _ in range(count):
            self.inc(listener, address)

    def accept_at_intervals(
        self, interval_ms: int, count: int, *listeners: str
    ) -> tuple[float, Counter[str]]:
        """Every listener tries `count` connections, one every `interval_ms`, late ones at once.

        Returns:
            Seconds that took, and by listener how many its address's rate refused.
        """
        refused: Counter[str] = Counter()
        start_ms = self.clock.time_ms()
        turns = [(start_ms, name, count) for name in listeners]
        heapq.heapify(turns)
        while turns:
            due_ms, name, left = heapq.heappop(turns)
            self.clock.advance(max(0, due_ms - self.clock.time_ms()))
            try:
                self.inc(name)
            except ConnectionThrottledError:
                refused[name] += 1
            if left > 1:
                heapq.heappush(turns, (due_ms + interval_ms, name, left - 1))
        self.clock.advance(interval_ms)
        return (self.clock.time_ms() - start_ms) / 1000, refused

    def counts(self) -> dict[str, int]:
        return {name: self.quotas.listener_count(name) for name in ADDRESSES}


class Starter:
    """Runs calls in threads and sees them to their ends."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def __call__(self, call: Callable[..., object], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=call, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "it still waits"


def all_listeners(count: int) -> dict[str, int]:
    return dict.fromkeys(ADDRESSES, count)
