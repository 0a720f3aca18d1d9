"""What Python sees of `partitioner`; the partitioner itself is native (see partitioner.pxd)."""

from collections.abc import Mapping, Sequence
from typing import final

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
        """Count bytes produced to the sticky partition; switch if it is due (C.5.2)."""
