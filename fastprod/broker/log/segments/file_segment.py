"""A segment in Kafka's files: 20 digits and .log, .index, .timeindex (B-C1.2, LogSegment)."""

from __future__ import annotations

import contextlib
import errno
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastprod._core.log.batch_scanner import (
    batch_size,
    find_largest_timestamp,
    find_offset,
    find_timestamp,
    whole_batches,
)
from fastprod._core.log.batch_validator import BatchInfo, inspect
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.file_handle import FileHandle
from fastprod.broker.log.segments.kept_file import KeptFile
from fastprod.broker.log.segments.offset_index import OffsetIndex, TimeIndex
from fastprod.broker.log.segments.segment import Appended

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_HEADER_BYTES: Final = 61
_STEP_BYTES: Final = 16 * 1024
_SCAN_BYTES: Final = 1024 * 1024


def file_name(offset: int, suffix: str) -> str:
    """Kafka's name of a file of the segment that begins with `offset`."""
    return f"{offset:020d}{suffix}"


class FileSegment:
    """See `Segment`. The file is open while it is used (`KeptFile`).

    Args:
        folder: the partition's.
        base_offset: offsets begin here.
        created_ms: the broker's clock now.
        config: sizes of the indexes, and the limit for decompressed records.
        jitter_ms: taken off `segment.ms`.
        suffix: of the names of its files, for one that is to take the place of others.

    It needs `create`, `load` or `recover` before anything else.

    Attributes:
        last_epoch: leader epoch of the last batch that `load` or `recover` found; -1: none.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_config",
        "_file",
        "_folder",
        "_is_dirty",
        "_is_gone",
        "_largest_offset",
        "_positions",
        "_suffix",
        "_times",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "jitter_ms",
        "last_epoch",
        "max_timestamp",
        "size_bytes",
    )

    def __init__(
        self,
        folder: Path,
        base_offset: int,
        created_ms: int,
        config: LogConfig,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self._folder = folder
        self._config = config
        self._suffix = suffix
        self._file = KeptFile(folder / file_name(base_offset, f".log{suffix}"))
        self._make_indexes()
        self._is_dirty = False
        self._is_gone = False
        self._reset()

    def _make_indexes(self) -> None:
        base, suffix = self.base_offset, self._suffix
        self._positions = OffsetIndex(self._folder / file_name(base, f".index{suffix}"), base)
        self._times = TimeIndex(self._folder / file_name(base, f".timeindex{suffix}"), base)

    def _reset(self) -> None:
        self.size_bytes = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.last_epoch = -1
        self._largest_offset = self.base_offset
        self._bytes_since_entry = 0

    @property
    def is_full(self) -> bool:
        limit = self._config.segment_index_bytes
        # The last entry of the time index is kept free for `finish` (B-C3.3).
        return self._positions.size_bytes + 8 > limit or self._times.size_bytes + 24 > limit

    def create(self) -> None:
        """Make its files, empty.

        Raises:
            OSError: they cannot be made.
        """
        self._file.open(create=True).truncate(0)
        self._positions.save()
        self._times.save()

    def append(self, appended: Appended, sync: bool = False) -> None:
        handle = self._file.open()
        position = self.size_bytes
        size = memoryview(appended.batch).nbytes
        try:
            handle.write_at(appended.batch, position)
            if sync:
                handle.sync()
        except OSError:
            # The bytes beyond `size_bytes` are never read, and recovery cuts them off.
            with contextlib.suppress(OSError):
                handle.truncate(position)
            raise
        self._is_dirty = self._is_dirty or not sync
        self._note(appended.last_offset, appended.max_timestamp, position, size)

    def _note(self, last_offset: int, max_timestamp: int, position: int, size: int) -> None:
        """Count a batch, and add index entries when they are due."""
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self._largest_offset = last_offset
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self._times.drop_after(self._positions.last_offset)
            self._positions.append(last_offset, position)
            self._times.append(self.max_timestamp, self._largest_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.size_bytes = position + size

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, up_to: int
    ) -> list[Buffer] | None:
        handle = self._file.open()
        size = self.size_bytes
        position = self._position_of(handle, offset, size)
        if position is None:
            return None
        data = handle.read_at(max(min(max_bytes, size - position), 0), position)
        end = whole_batches(data, 0, len(data), up_to)
        if end == 0 and at_least_one:
            first = batch_size(handle.read_at(_HEADER_BYTES, position), 0) or 0
            data = handle.read_at(first, position)
            if len(data) < max(first, _HEADER_BYTES):
                text = f"{self._file.path} is cut off at byte {position + len(data)}"
                raise OSError(errno.EIO, text)
            end = whole_batches(data, 0, len(data), up_to)
        if end == 0:
            return []
        return [data if end == len(data) else memoryview(data)[:end]]

    def _position_of(self, handle: FileHandle, offset: int, size: int) -> int | None:
        """Position of the batch that reaches `offset`."""
        position = self._positions.position_of(offset)
        while position < size:
            block = handle.read_at(min(_STEP_BYTES, size - position), position)
            step, found = find_offset(block, 0, len(block), offset)
            position += step
            if found:
                return position
            if step == 0:
                break
        return None

    def _blocks(self, position: int) -> Iterator[bytes]:
        """Whole batches from `position` on."""
        handle = self._file.open()
        size = self.size_bytes
        while position < size:
            data = handle.read_at(min(_SCAN_BYTES, size - position), position)
            end = whole_batches(data, 0, len(data), _INT64_MAX)
            if end == 0:
                data = handle.read_at(batch_size(data, 0) or 0, position)
                end = len(data)
            if end == 0:
                return
            yield data[:end]
            position += end

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int] | None:
        offset = max(self._times.offset_before(timestamp), from_offset)
        for block in self._blocks(self._positions.position_of(offset)):
            found = find_timestamp(
                block, 0, len(block), timestamp, from_offset, self._config.codec_limit_bytes
            )
            if found is not None:
                return found
        return None

    def find_largest_timestamp(self, from_offset: int) -> tuple[int, int] | None:
        limit = self._config.codec_limit_bytes
        if from_offset <= self.base_offset:
            batch = self.read(self._largest_offset, 0, True, _INT64_MAX) or []
            return find_largest_timestamp(batch[0], 0, _INT32_MAX, 0, limit) if batch else None
        best: tuple[int, int] | None = None
        for block in self._blocks(self._positions.position_of(from_offset)):
            found = find_largest_timestamp(block, 0, len(block), from_offset, limit)
            if found is not None and (best is None or found[1] > best[1]):
                best = found
        return best

    @property
    def is_synced(self) -> bool:
        return not self._is_dirty and self._positions.is_synced and self._times.is_synced

    def flush(self, complete: bool = False) -> None:
        try:
            self._sync_log()
            if complete:
                self._positions.sync()
                self._times.sync()
        except OSError:
            if not self._is_gone:
                raise

    def _sync_log(self) -> None:
        if self._is_dirty:
            # Taken first: what is appended during the sync is synced the next time.
            self._is_dirty = False
            try:
                self._file.open().sync()
            except OSError:
                self._is_dirty = True
                raise

    def allow_gaps(self) -> None:
        self._config = self._config.__replace__(compact=True)

    def finish(self) -> None:
        if self._times.last != (self.max_timestamp, self._largest_offset):
            # One entry for the end, unless an earlier `finish` has added it.
            self._times.drop_after(self._positions.last_offset)
            self._times.append(self.max_timestamp, self._largest_offset)
        self._positions.save()
        self._times.save()

    def load(self, end_offset: int | None = None) -> int | None:
        """Load files that were closed; the indexes are rebuilt if necessary (B-C8.5).

        Args:
            end_offset: where the next segment begins; None: this is the last one.

        Returns:
            The offset after the last batch; None: the log's end is damaged, `recover` it.
        """
        size = self._file.open().size_bytes
        first = next(self.batches_from(0, False, size), None)
        first_timestamp = first[0].max_timestamp if first else -1
        if not self._load_indexes(size, first_timestamp):
            self._make_indexes()
            found = self._walk(0, self.base_offset, size)
            self.finish()
            return found
        self.first_timestamp = first_timestamp
        self.max_timestamp, self._largest_offset = self._times.last
        if end_offset is not None:
            self.size_bytes = size
            return end_offset
        return self._walk(max(self._positions.last_position, 0), self.base_offset, size)

    def _load_indexes(self, size: int, first_timestamp: int) -> bool:
        positions, times = self._positions, self._times
        if not positions.load() or not times.load():
            return False
        # What `finish` wrote at the end has the largest timestamp; the others come in pairs.
        if len(times) > len(positions) + 1 or (len(times) == 0 and first_timestamp >= 0):
            return False
        return positions.last_position < size

    def _walk(self, position: int, next_offset: int, size: int) -> int | None:
        """Count the batches from `position` on; None if they do not end with the file."""
        indexed = self._positions.last_position
        for info, at in self.batches_from(position, False, size):
            if at == position and at > 0:
                next_offset = info.base_offset
            if not self._follows(info, next_offset):
                return None
            next_offset = info.last_offset + 1
            self.last_epoch = info.partition_leader_epoch
            if at > indexed:
                self._note(info.last_offset, info.max_timestamp, at, info.size_bytes)
            else:
                self._bytes_since_entry = info.size_bytes
                self.size_bytes = at + info.size_bytes
        return next_offset if self.size_bytes == size else None

    def _follows(self, info: BatchInfo, next_offset: int) -> bool:
        """Whether a batch may come at `next_offset`. Only compaction leaves gaps."""
        if info.last_offset - self.base_offset > _INT32_MAX:
            return False
        if self._config.compact:
            return info.base_offset >= next_offset
        return info.base_offset == next_offset

    def batches_from(
        self, position: int, check_crc: bool = False, size: int | None = None
    ) -> Iterator[tuple[BatchInfo, int]]:
        """Headers and positions of the undamaged batches from byte `position` on."""
        size = self.size_bytes if size is None else size
        if position >= size:
            return
        # Kept: a closed descriptor could become another file's before it is mapped.
        handle = self._file.open()
        with mmap.mmap(handle.fd, size, access=mmap.ACCESS_READ) as log:
            while (info := inspect(log, position, check_crc)) is not None:
                yield info, position
                position += info.size_bytes

    def batches_at(self, offset: int) -> Iterator[BatchInfo]:
        """Headers of the batches from the one that reaches `offset` on."""
        position = self._position_of(self._file.open(), offset, self.size_bytes)
        if position is not None:
            for info, _ in self.batches_from(position):
                yield info

    def recover(self) -> tuple[int, bool]:
        """Keep the batches up to the first damaged one, and rebuild the indexes (B-C8.3).

        If more segments follow, call `finish` too.

        Returns:
            The offset after the last batch, and whether something was cut off.
        """
        self._reset()
        # New objects: readers go on with the old ones.
        self._make_indexes()
        size = self._file.open().size_bytes
        next_offset = self.base_offset
        for info, at in self.batches_from(0, True, size):
            if not self._follows(info, next_offset):
                break
            self._note(info.last_offset, info.max_timestamp, at, info.size_bytes)
            self.last_epoch = info.partition_leader_epoch
            next_offset = info.last_offset + 1
        is_cut = self.size_bytes < size
        if is_cut:
            self._file.open().truncate(self.size_bytes)
        self._is_dirty = True
        self._positions.save()
        self._times.save()
        return next_offset, is_cut

    def truncate_to(self, offset: int) -> int:
        position = self._position_of(self._file.open(), offset, self.size_bytes)
        if position is not None:
            self._file.open().truncate(position)
        return self.recover()[0]

    def take_place(self, created_ms: int) -> None:
        """Its files have the names of those now that it has taken the place of.

        Args:
            created_ms: of those.
        """
        self.created_ms, self._suffix = created_ms, ""
        self._file.path = self._folder / file_name(self.base_offset, ".log")
        self._positions.path = self._folder / file_name(self.base_offset, ".index")
        self._times.path = self._folder / file_name(self.base_offset, ".timeindex")

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        # Before the files go: a sync that comes now has nothing to do.
        self._is_gone = True
        # Reads in progress keep the descriptor.
        self._file.path.unlink(missing_ok=True)
        self._positions.delete()
        self._times.delete()
