"""Sparse indexes of a segment in Kafka's file formats: offsets to positions, times to offsets."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import Final

from fastprod.broker.log.segments.file_handle import FileHandle

_OFFSET_ENTRY: Final = Struct(">II")
_TIME_ENTRY: Final = Struct(">qI")
_UINT32_MAX: Final = 2**32 - 1


class _IndexFile:
    """Entries in memory, appended to a file in blocks: no mapping, no preallocation
    (B-C3.2).

    Two columns, both in ascending order.  One thread appends, any looks up.

    Attributes:
        base_offset: of the segment.
        is_synced: whether all that was saved is synced.
        path: of its file.
    """

    __slots__ = (
        "_columns",
        "_entry",
        "_saved_count",
        "base_offset",
        "is_synced",
        "path",
    )

    def __init__(self, path: Path, entry: Struct, first_type: str, base_offset: int) -> None:
        self.path = path
        self._entry = entry
        self.base_offset = base_offset
        # They grow; when entries are removed both are replaced: readers go on with the old ones.
        self._columns = (array(first_type), array("I"))
        self._saved_count = 0
        self.is_synced = True

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def size_bytes(self) -> int:
        """Size of the file, once all is saved."""
        return len(self) * self._entry.size

    def entries(self) -> list[tuple[int, int]]:
        """All entries as they stand in the file."""
        return list(zip(*self._columns, strict=True))

    def _add(self, first: int, second: int) -> None:
        firsts, seconds = self._columns
        # Second column first: a reader finds a place in the first and looks it up in the second.
        seconds.append(second)
        firsts.append(first)

    def _keep(self, count: int) -> None:
        """Drop all entries but the first `count`; the next ones overwrite them in the file."""
        firsts, seconds = self._columns
        self._columns = (firsts[:count], seconds[:count])
        self._saved_count = min(self._saved_count, count)

    def load(self) -> bool:
        """Read the file; False: there is none, or it cannot be an index (B-C3.5)."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return False
        self.clear()
        if len(data) % self._entry.size:
            return False
        firsts, seconds = self._columns
        for first, second in self._entry.iter_unpack(data):
            if firsts and (first <= firsts[-1] or second <= seconds[-1]):
                self.clear()
                return False
            self._add(first, second)
        self._saved_count = len(firsts)
        return True

    def clear(self) -> None:
        """Forget all entries; the file is written anew by the next `save`."""
        self._keep(0)

    def save(self) -> None:
        """Append the entries that the file does not have yet.

        Raises:
            OSError: it cannot be written.
        """
        count = len(self)
        if self._saved_count == count and count:
            return
        handle = FileHandle(self.path, create=True)
        # An empty file that is lost is simply rebuilt.
        self.is_synced = self.is_synced and count == 0 and handle.size_bytes == 0
        start = self._saved_count
        if start == 0:
            handle.truncate(0)
        firsts, seconds = self._columns
        data = b"".join(map(self._entry.pack, firsts[start:], seconds[start:]))
        handle.write_at(data, start * self._entry.size)
        self._saved_count = count

    def sync(self) -> None:
        """Sync what was saved: it survives a power cut.

        Raises:
            OSError: syncing failed.
        """
        if not self.is_synced:
            FileHandle(self.path).sync()
            self.is_synced = True

    def delete(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


class OffsetIndex(_IndexFile):
    """Offsets to byte positions: entries of 8 bytes (B-C3.1).

    Args:
        path: its file.
        base_offset: offsets in the file are relative to it.
    """

    __slots__ = ()

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, _OFFSET_ENTRY, "I", base_offset)

    def append(self, last_offset: int, position: int) -> None:
        """Note that the batch that ends with `last_offset` begins at `position`."""
        self._add(last_offset - self.base_offset, position)

    def position_of(self, offset: int) -> int:
        """Position of a batch at or before the one with `offset`, to walk on from."""
        firsts, seconds = self._columns
        index = bisect_right(firsts, offset - self.base_offset) - 1
        return seconds[index] if index >= 0 else 0

    @property
    def last_position(self) -> int:
        """Position of the last entry; -1: none."""
        _, seconds = self._columns
        return seconds[-1] if seconds else -1

    @property
    def last_offset(self) -> int:
        """Offset of the last entry; without one, the offset before the base offset."""
        firsts, _ = self._columns
        return self.base_offset + (firsts[-1] if firsts else -1)


class TimeIndex(_IndexFile):
    """Largest timestamps so far to offsets: entries of 12 bytes (B-C3.1, B-C3.3).

    Args:
        path: its file.
        base_offset: offsets in the file are relative to it.
    """

    __slots__ = ()

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, _TIME_ENTRY, "q", base_offset)

    def append(self, timestamp: int, last_offset: int) -> None:
        """Note that up to `last_offset` no timestamp is larger; nothing if none grew."""
        firsts, _ = self._columns
        if timestamp > (firsts[-1] if firsts else -1):
            self._add(timestamp, last_offset - self.base_offset)

    def drop_after(self, last_offset: int) -> None:
        """Drop entries beyond `last_offset`; the next ones overwrite them in the file."""
        _, seconds = self._columns
        count = len(seconds)
        while count and self.base_offset + seconds[count - 1] > last_offset:
            count -= 1
        if count < len(seconds):
            self._keep(count)

    def offset_before(self, timestamp: int) -> int:
        """Last offset of a batch; all records before it are older than `timestamp`."""
        firsts, seconds = self._columns
        index = bisect_right(firsts, timestamp) - 1
        return self.base_offset + (seconds[index] if index >= 0 else 0)

    @property
    def last(self) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch); (-1, the base offset): no entry."""
        firsts, seconds = self._columns
        if not firsts:
            return -1, self.base_offset
        return firsts[-1], self.base_offset + seconds[-1]
