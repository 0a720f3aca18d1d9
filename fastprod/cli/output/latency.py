"""LatencySamples: the times from send() to the callback, of some of the records."""

from __future__ import annotations

import functools
import math
import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy

from fastprod.records import RecordMetadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
_BAR_WIDTH: Final = 30


class LatencySamples:
    """Collects the latencies of delivered records.

    Attributes:
        first_error: of a sampled record that was not delivered; None if all were.

    Threads: the sending one calls `begin`, the delivery thread the callbacks.
    """

    def __init__(self) -> None:
        self.first_error: BaseException | None = None
        self._latencies_ns = array("q")

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
        """Add a latency that was measured by the caller."""
        self._latencies_ns.append(latency_ns)

    def _taken(self) -> NDArray[numpy.int64]:
        """A sorted copy: numpy would keep the array itself from growing."""
        return numpy.sort(numpy.frombuffer(self._latencies_ns.tobytes(), numpy.int64))

    def in_words(self) -> str:
        """Average, percentiles and maximum, as in "avg 1.2 ms, p50 1.1 ms, ..., max 3.4 ms"."""
        taken = self._taken()
        if not taken.size:
            return "none: no sampled record was delivered"
        parts = [("avg", float(taken.mean()))]
        parts += [(f"p{each:g}", percentile(taken, each)) for each in PERCENTILES]
        parts.append(("max", int(taken[-1])))
        return ", ".join(f"{name} {milliseconds(value)}" for name, value in parts)

    def histogram(self) -> str:
        """How many samples lie between powers of two of a millisecond: a bar in each line.

        Empty without samples.
        """
        taken = self._taken()
        if not taken.size:
            return ""
        # The exponent of the next power of two above the ms: 0.3 -> -1, 1 -> 1, 3 -> 2.
        exponents = numpy.frexp(taken / 1e6)[1]
        first = int(exponents.min())
        counts = numpy.bincount(exponents - first)
        bars = -(-counts * _BAR_WIDTH // counts.max())
        rows = [
            (f"< {2.0 ** (first + row):g} ms", f"{count:,}", int(bar) * "#")
            for row, (count, bar) in enumerate(zip(counts, bars, strict=True))
        ]
        name_width, count_width = (max(len(row[part]) for row in rows) for part in (0, 1))
        return "\n".join(
            f"{name:>{name_width}}  {count:>{count_width}}  {bar}".rstrip()
            for name, count, bar in rows
        )


def percentile(ordered: Sequence[int] | NDArray[numpy.int64], percent: float) -> int:
    """The smallest value that at least `percent` % of `ordered` do not exceed (nearest rank).

    Args:
        ordered: ascending, not empty.
        percent: more than 0, at most 100.
    """
    rank = math.ceil(round(percent * len(ordered) / 100, 6))
    return int(ordered[max(rank, 1) - 1])


def milliseconds(duration_ns: float) -> str:
    """A duration in ms, with three significant digits."""
    ms = duration_ns / 1e6
    digits = 3 if ms < 1 else 2 if ms < 10 else 1 if ms < 1000 else 0
    return f"{ms:,.{digits}f} ms"
