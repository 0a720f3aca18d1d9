"""A segment in memory: batches lie in few large chunks, so that a read is a handful of slices."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastprod._core.log.batch_scanner import (
    batch_size,
    copy_batch,
    copy_into,
    find_largest_timestamp,
    find_offset,
    find_timestamp,
    whole_batches,
)
from fastprod._core.log.batch_validator import BatchInfo, inspect
from fastprod.broker.log.segments.segment import Appended

if TYPE_CHECKING:
    from typing_extensions import Buffer

# A batch of this size or more has a chunk of its own; smaller ones share chunks that grow.
_LONE_BYTES: Final = 16 * 1024
_CHUNK_LEAST_BYTES: Final = 1024
_CHUNK_MOST_BYTES: Final = 64 * 1024


class _Chunk:
    """Batches in a row.  Bytes below `used` never change: readers hold slices of them."""

    __slots__ = ("base_offset", "data", "max_timestamp", "used")

    def __init__(self, base_offset: int, data: bytes | bytearray, max_timestamp: int) -> None:
        self.base_offset = base_offset
        self.data = data
        self.used = 0
        self.max_timestamp = max_timestamp  # largest of the segment up to here, as in a time index


def _base_offset(chunk: _Chunk) -> int:
    return chunk.base_offset


def _max_timestamp(chunk: _Chunk) -> int:
    return chunk.max_timestamp


class MemorySegment:
    """See `Segment`. It takes the memory of its batches, and a chunk of 64 KiB at most.

    Args:
        base_offset: offsets begin here.
        created_ms: the broker's clock now.
        codec_limit: most bytes of a batch's decompressed records.
        jitter_ms: taken off `segment.ms`.
    """

    __slots__ = (
        "_chunks",
        "_codec_limit",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "jitter_ms",
        "max_timestamp",
        "size_bytes",
    )

    def __init__(
        self, base_offset: int, created_ms: int, codec_limit: int, jitter_ms: int = 0
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.size_bytes = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self._codec_limit = codec_limit
        self._chunks: list[_Chunk] = []

    @property
    def is_full(self) -> bool:
        return False

    def append(self, appended: Appended, sync: bool = False) -> None:
        batch = appended.batch
        size = memoryview(batch).nbytes
        largest = max(self.max_timestamp, appended.max_timestamp)
        if size >= _LONE_BYTES:
            # The log of another replica may have it already: they share it.
            data = batch if type(batch) is bytes else copy_batch(batch)
            lone = _Chunk(appended.base_offset, data, largest)
            lone.used = size
            self._chunks.append(lone)
        else:
            self._append_small(batch, size, appended.base_offset, largest)
        if self.size_bytes == 0:
            self.first_timestamp = appended.max_timestamp
        self.max_timestamp = largest
        self.size_bytes += size

    def _append_small(self, batch: Buffer, size: int, base_offset: int, largest: int) -> None:
        chunk = self._chunks[-1] if self._chunks else None
        if chunk is None or len(chunk.data) - chunk.used < size:
            room = _CHUNK_LEAST_BYTES
            # Only many small batches in a row get larger chunks.
            if chunk is not None and isinstance(chunk.data, bytearray):
                room = min(2 * len(chunk.data), _CHUNK_MOST_BYTES)
            chunk = _Chunk(base_offset, bytearray(max(room, size)), largest)
            copy_into(batch, chunk.data, 0)
            chunk.used = size
            self._chunks.append(chunk)
            return
        copy_into(batch, chunk.data, chunk.used)
        chunk.max_timestamp = largest
        chunk.used += size

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, up_to: int
    ) -> list[Buffer] | None:
        chunks = self._chunks
        index = max(bisect_right(chunks, offset, key=_base_offset) - 1, 0)
        parts: list[Buffer] | None = None
        left = max_bytes
        for number in range(index, len(chunks)):
            chunk = chunks[number]
            used = chunk.used
            at = 0
            if parts is None:
                at, found = find_offset(chunk.data, 0, used, offset)
                if not found:
                    continue
                parts = []
            end = whole_batches(chunk.data, at, min(used, at + left), up_to)
            if end == at and at_least_one and not parts:
                first = batch_size(chunk.data, at) or 0
                end = whole_batches(chunk.data, at, at + first, up_to)
            if end > at:
                parts.append(_slice(chunk.data, at, end))
            left -= end - at
            if end < used or left <= 0:
                break
        return parts

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int] | None:
        chunks = self._chunks
        index = bisect_left(chunks, timestamp, key=_max_timestamp)
        start = max(bisect_right(chunks, from_offset, key=_base_offset) - 1, 0)
        for chunk in chunks[max(index, start) :]:
            found = find_timestamp(
                chunk.data, 0, chunk.used, timestamp, from_offset, self._codec_limit
            )
            if found is not None:
                return found
        return None

    def find_largest_timestamp(self, from_offset: int) -> tuple[int, int] | None:
        chunks = self._chunks
        if not chunks:
            return None
        if from_offset > self.base_offset:
            start = max(bisect_right(chunks, from_offset, key=_base_offset) - 1, 0)
            return self._largest_of(chunks[start:], from_offset)
        # Each chunk knows the largest up to its end: the first with the largest of all has it.
        index = bisect_left(chunks, chunks[-1].max_timestamp, key=_max_timestamp)
        return self._largest_of(chunks[index : index + 1], from_offset)

    def _largest_of(self, chunks: list[_Chunk], from_offset: int) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        for chunk in chunks:
            found = find_largest_timestamp(
                chunk.data, 0, chunk.used, from_offset, self._codec_limit
            )
            if found is not None and (best is None or found[1] > best[1]):
                best = found
        return best

    @property
    def is_synced(self) -> bool:
        return True

    def flush(self, complete: bool = False) -> None:
        """Nothing to sync."""

    def allow_gaps(self) -> None:
        """They always may."""

    def finish(self) -> None:
        """Nothing to complete: the chunks are the index."""

    def truncate_to(self, offset: int) -> int:
        kept = self.read(self.base_offset, self.size_bytes, False, offset) or []
        self._chunks, self.size_bytes, self.max_timestamp = [], 0, -1
        end_offset = self.base_offset
        for part in kept:
            at = 0
            while (info := inspect(part, at, False)) is not None:
                batch = memoryview(part)[at : at + info.size_bytes]
                self.append(Appended(batch, info.base_offset, info.last_offset, info.max_timestamp))
                at += info.size_bytes
                end_offset = info.last_offset + 1
        return end_offset

    def batches_at(self, offset: int) -> Iterator[BatchInfo]:
        chunks = self._chunks
        index = max(bisect_right(chunks, offset, key=_base_offset) - 1, 0)
        for chunk in chunks[index:]:
            at, _ = find_offset(chunk.data, 0, chunk.used, offset)
            while at < chunk.used and (info := inspect(chunk.data, at, False)) is not None:
                yield info
                at += info.size_bytes

    def close(self) -> None:
        """Nothing to close: readers hold what they read."""

    def delete(self) -> None:
        self._chunks = []


def _slice(data: bytes | bytearray, at: int, end: int) -> Buffer:
    if type(data) is bytes and at == 0 and end == len(data):
        return data
    return memoryview(data)[at:end].toreadonly()
