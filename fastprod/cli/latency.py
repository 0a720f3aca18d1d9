"""LatencySamples: from the call of send() to its callback, of some of the records."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from typing import Final

from fastprod.records import RecordMetadata

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


class LatencySamples:
    """Collects the latencies of delivered records.

    Attributes:
        first_error: of a sampled record that was not delivered; None if all were.

    Threads: `begin` from the sending one; its callbacks from the delivery thread.
    """

    def __init__(self) -> None:
        self.first_error: BaseException | None = None
        self._latencies_ns: list[int] = []

    def __len__(self) -> int:
        return len(self._latencies_ns)

    def begin(self) -> functools.partial[None]:
        """Start the clock of one record; returns its `on_delivery`."""
        return functools.partial(self._end, time.perf_counter_ns())

    def _end(self, began_ns: int, metadata: RecordMetadata, error: BaseException | None) -> None:
        if error is None:
            self._latencies_ns.append(time.perf_counter_ns() - began_ns)
        elif self.first_error is None:
            self.first_error = error

    def add_ns(self, latency_ns: int) -> None:
        """Take a latency that was measured otherwise."""
        self._latencies_ns.append(latency_ns)

    def in_words(self) -> str:
        """Average, percentiles and maximum, as in "avg 1.2 ms, p50 1.1 ms, ..., max 3.4 ms"."""
        ordered = sorted(self._latencies_ns)
        if not ordered:
            return "none: no sampled record was delivered"
        parts = [("avg", sum(ordered) / len(ordered))]
        parts += [(f"p{each:g}", percentile(ordered, each)) for each in PERCENTILES]
        parts.append(("max", ordered[-1]))
        return ", ".join(f"{name} {milliseconds(value)}" for name, value in parts)


def percentile(ordered: Sequence[int], percent: float) -> int:
    """The smallest of `ordered` that at least `percent` % of them do not exceed (nearest rank).

    Args:
        ordered: ascending, not empty.
        percent: more than 0, at most 100.
    """
    rank = math.ceil(round(percent * len(ordered) / 100, 6))
    return ordered[max(rank, 1) - 1]


def milliseconds(duration_ns: float) -> str:
    """A duration with three digits that count, in ms."""
    ms = duration_ns / 1e6
    digits = 3 if ms < 1 else 2 if ms < 10 else 1 if ms < 1000 else 0
    return f"{ms:,.{digits}f} ms"
