"""Doors to the small parts of the engine: timers, figures, events, the sticky partitioner."""

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from fastprod._core.engine.engine import Engine
from fastprod._core.engine.histogram import LatencyHistogram

def incomplete_for_test(engine: Engine) -> tuple[int, int]:
    """What is without an outcome.

    Returns:
        (batches, those whose callbacks have not all run among them; records).
    """

class TimersForTest:
    """Timers by number, all in one heap. Not set at first."""

    count: int

    def __init__(self, count: int) -> None: ...
    def set(self, number: int, due_ns: int) -> None: ...
    def clear(self, number: int) -> None: ...
    def next_ns(self) -> int | None:
        """When the first is due; None: none is set."""

    def pop_due(self, now_ns: int) -> int | None:
        """The number of the first one, which is then cleared, if it is due."""

def histogram_for_test(
    times_ns: Iterable[int], weight: int = 1, largest_ns: int | None = None
) -> LatencyHistogram:
    """Count each of `times_ns` as `weight` times; `largest_ns` sets the maximum; for tests."""

def maxima_for_test(values: Iterable[int], take_every: int) -> list[tuple[int, int, int]]:
    """Raise a maximum by each value; every so many (looked at, taken, left); for tests."""

@final
class EventQueueForTest:
    """One queue of events. Threads: any."""

    def __init__(self) -> None: ...
    def push(self, kind: int, slot: int = -1, token: int = 0, data: bytes | None = None) -> None:
        """Append an event; it is given its own copy of `data`."""
    def push_nothing(self) -> None:
        """Append the NULL that stands for memory that ran out."""
    def take(self, timeout_ms: float = 0.0) -> tuple[int, int, int, bytes | None] | None:
        """Take the oldest event; blocks without the GIL.

        Args:
            timeout_ms: how long to wait for one; 0: not at all.

        Returns:
            (kind, slot, token, data), or None: there was none.
        """
    @property
    def count(self) -> int:
        """Events in the queue."""

@final
class StickyPartitionerForTest:
    """The built-in partitioner of one topic, with scripted randomness. Threads: one at a time."""

    def __init__(self, limit_bytes: int, has_leader: Sequence[bool], seed: int = 1) -> None:
        """Partition a topic.

        Args:
            limit_bytes: switch after so many bytes.
            has_leader: for each partition.
            seed: of the random numbers, 0..2**64-1.
        """
    def set_partitions(self, has_leader: Sequence[bool]) -> None:
        """Give it new metadata."""
    def set_load(self, queues: Mapping[int, int], nothing_excluded: bool = True) -> None:
        """Give it the batches waiting, by partition; excluded partitions are not in there."""
    def cumulative(self) -> list[int]:
        """Return the load table's cumulative weights; empty: the choice is uniform."""
    def script(self, number: int) -> None:
        """Set the next random number."""
    @property
    def scripted(self) -> int | None:
        """The number of `script`, until it was used."""
    @property
    def produced_bytes(self) -> int:
        """Bytes produced since the last switch."""
    def current(self) -> int:
        """Return the sticky partition, chosen now if there is none; -1 without partitions."""
    def produced(self, size_bytes: int, may_switch: bool = True) -> None:
        """Count bytes produced to the sticky partition; switch if it is due (P-C.5.2)."""
