"""Throttles: connections that are throttled, and when that ends (B-A6)."""

from __future__ import annotations

import heapq
import itertools
from typing import Final

from fastprod.broker.network.connection import Connection
from fastprod.broker.threads.clock import Clock

_NS_PER_MS: Final = 1_000_000


class Throttles:
    """The throttles of one Processor; its thread alone uses them.

    Args:
        clock: measures their time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Connection]] = []  # end, order, whom
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, connection: Connection, throttle_ms: int) -> None:
        """Have `take_ended` return `connection` in `throttle_ms`, unless it is closed by then."""
        end_ns = self._clock.monotonic_ns() + throttle_ms * _NS_PER_MS
        heapq.heappush(self._heap, (end_ns, next(self._order), connection))

    def take_ended(self) -> list[Connection]:
        """Those whose throttle is over, each once."""
        if not self._heap:
            return []
        now_ns = self._clock.monotonic_ns()
        ended = []
        while self._heap and (self._heap[0][0] <= now_ns or not self._heap[0][2].is_open):
            connection = heapq.heappop(self._heap)[2]
            if connection.is_open:
                ended.append(connection)
        return ended

    def timeout_ms(self) -> float:
        """How long to sleep until the next one ends; -1 if none ever does by itself."""
        if not self._heap:
            return -1.0
        seconds = self._clock.seconds_until(self._heap[0][0])
        return -1.0 if seconds is None else seconds * 1000
