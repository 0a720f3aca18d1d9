"""CallCounters: the few numbers of metrics() that Python counts, none of them per record."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from fastprod.client.fork_lock import fork_lock

TIMED_CALLS: Final = (
    "flush",
    "metadata-wait",
    "txn-init",
    "txn-begin",
    "txn-send-offsets",
    "txn-commit",
    "txn-abort",
)
"""Calls whose time Kafka's `<call>-time-ns-total` tells."""


class CallCounters:
    """Time that callers spent, errors that `send` raised, throttle times of the control thread.

    Args:
        clock_ns: monotonic ns.

    Threads: any.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        # Reentrant: a signal handler may flush while its own thread counts.
        self._lock = fork_lock()
        self._totals = dict.fromkeys((*TIMED_CALLS, "errors", "throttle_ms", "responses"), 0)
        self._longest_throttle_ms = 0

    @contextlib.contextmanager
    def timed(self, call: str) -> Iterator[None]:
        """Add the time of the with block to one of `TIMED_CALLS`, however it ends."""
        began_ns = self._clock_ns()
        try:
            yield
        finally:
            self._add(call, self._clock_ns() - began_ns)

    def count_error(self) -> None:
        """A record failed in `send` already."""
        self._add("errors", 1)

    def count_throttle(self, throttle_ms: int) -> None:
        """A response to the control thread told a throttle time, 0 among them (P-G.8)."""
        with self._lock:
            self._totals["throttle_ms"] += throttle_ms
            self._totals["responses"] += 1
            self._longest_throttle_ms = max(self._longest_throttle_ms, throttle_ms)

    def totals(self) -> dict[str, int]:
        """Ns of each of `TIMED_CALLS`; errors; throttle_ms and the responses that told it."""
        return dict(self._totals)

    def longest_throttle_ms(self, reset: bool) -> int:
        """The longest since it last started anew."""
        with self._lock:
            found = self._longest_throttle_ms
            if reset:
                self._longest_throttle_ms = 0
            return found

    def _add(self, name: str, amount: int) -> None:
        with self._lock:
            self._totals[name] += amount
