"""Segment: what a log needs of a segment, in memory or in files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fastprod._core.log.batch_scanner import find_offset
from fastprod._core.log.batch_validator import BatchInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Appended(NamedTuple):
    """A batch that goes into a segment, validated and stamped.

    Attributes:
        batch: its bytes, borrowed until `append` returns.
        base_offset: first offset.
        last_offset: last offset.
        max_timestamp: of its records, milliseconds since the epoch; -1: none.
    """

    batch: Buffer
    base_offset: int
    last_offset: int
    max_timestamp: int


class AppendInfo(NamedTuple):
    """The result of an append.

    Attributes:
        base_offset: of its first record; for a duplicate, the one from the first time.
        last_offset: of its last record.
        log_append_time_ms: -1 unless the log stamps the records.
        log_start_offset: of the log.
        duplicate: it was there already, and was not appended again (B-C6.2).
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


class Segment(Protocol):
    """Consecutive batches of a log. One thread appends, any thread reads.

    Attributes:
        base_offset: offsets begin here.
        size_bytes: of all batches.
        first_timestamp: maximum of the first batch; -1: none yet.
        max_timestamp: of all batches; -1: none.
        created_ms: when it was made.
        jitter_ms: taken off `segment.ms`.
    """

    base_offset: int
    size_bytes: int
    first_timestamp: int
    max_timestamp: int
    created_ms: int
    jitter_ms: int

    @property
    def is_full(self) -> bool:
        """Whether an index has no room for more."""

    def append(self, appended: Appended, sync: bool = False) -> None:
        """Append a batch: all of it or, with an exception, nothing.

        Args:
            sync: whether it is synced when this returns.

        Raises:
            OSError: it cannot be written.
        """

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, up_to: int
    ) -> list[Buffer] | None:
        """Whole batches from the one with `offset` on, all below offset `up_to`.

        Args:
            max_bytes: of all; with `at_least_one` the first batch may be larger.

        Returns:
            None: no batch here reaches `offset`.

        Raises:
            OSError: it cannot be read.
        """

    def batches_at(self, offset: int) -> Iterator[BatchInfo]:
        """Headers of the batches from the one that reaches `offset` on."""

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int] | None:
        """First record from `from_offset` on that is not older: (offset, timestamp)."""

    def find_largest_timestamp(self, from_offset: int) -> tuple[int, int] | None:
        """First record from `from_offset` on with the largest timestamp."""

    @property
    def is_synced(self) -> bool:
        """Whether all of it is synced."""

    def flush(self, complete: bool = False) -> None:
        """Sync what was written: it survives a power cut.

        Args:
            complete: sync the indexes too; after `finish`.

        Raises:
            OSError: syncing failed.
        """

    def allow_gaps(self) -> None:
        """From now on a batch may begin behind the end of the one before, as compaction leaves it.

        Otherwise what follows a gap counts as damaged when the segment is walked.
        """

    def finish(self) -> None:
        """Complete the indexes.

        Raises:
            OSError: they cannot be written.
        """

    def truncate_to(self, offset: int) -> int:
        """Drop the batches that reach `offset` or beyond; returns the new end offset."""

    def close(self) -> None:
        """Close descriptors; reads in progress are not disturbed."""

    def delete(self) -> None:
        """Remove files; reads in progress are not disturbed."""


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def read_segments(
    segments: Sequence[Segment], offset: int, max_bytes: int, at_least_one: bool, up_to: int
) -> list[Buffer]:
    """Whole batches of segments in a row, from the one with `offset` on; see `Segment.read`."""
    first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
    parts: list[Buffer] = []
    for segment in segments[first:]:
        if parts:
            if max_bytes <= 0 or segment.base_offset >= up_to:
                break
            # The read stopped before the segment's end: the next batch had no room.
            last = memoryview(parts[-1])
            if not find_offset(last, 0, last.nbytes, segment.base_offset - 1)[1]:
                break
            offset = segment.base_offset
        found = segment.read(offset, max_bytes, at_least_one and not parts, up_to)
        if found is None:
            continue
        if not found:
            break
        parts += found
        max_bytes -= sum(memoryview(part).nbytes for part in found)
    return parts


def find_timestamp(
    segments: Sequence[Segment], timestamp: int, from_offset: int
) -> tuple[int, int] | None:
    """First record of segments in a row that is not older; see `Segment.find_timestamp`."""
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            found = segment.find_timestamp(timestamp, from_offset)
            if found is not None:
                return found
    return None
