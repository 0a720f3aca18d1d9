"""The aborted transactions of a log, and their files (B-C3.4, B-C7.4, TransactionIndex)."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from fastprod.broker.log.segments.file_handle import FileHandle, replace_file
from fastprod.broker.log.segments.file_segment import file_name

_SUFFIX: Final = ".txnindex"
_VERSION: Final = 0
# Version, producer id, first offset, last offset, last stable offset.
_ENTRY: Final = Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """A transaction that was aborted.

    Attributes:
        producer_id: whose.
        first_offset: of its first record here.
        last_offset: of its marker.
        last_stable_offset: of the log, once the marker was there.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _last_offset(entry: AbortedTxn) -> int:
    return entry.last_offset


class TransactionIndex:
    """Aborted transactions by the offsets of their markers.

    The log's lock guards changes; `collect` takes none. In files, each segment has those whose
    markers lie in it.

    Args:
        folder: the partition's; None: in memory.
    """

    __slots__ = ("_entries", "_folder", "_ready", "_unsynced")

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        # Only appended to, or replaced as a whole.
        self._entries: list[AbortedTxn] = []
        self._ready: tuple[Path, FileHandle] | None = None
        self._unsynced: set[Path] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[AbortedTxn]:
        """All of them, oldest first."""
        return list(self._entries)

    def collect(self, offset: int, end_offset: int) -> list[AbortedTxn]:
        """Those that a reader of these offsets has to know (B-C7.5)."""
        entries = self._entries
        found = []
        for entry in entries[bisect_left(entries, offset, key=_last_offset) :]:
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return found

    def make_ready(self, base_offset: int) -> None:
        """Open the file of a segment for the next `append`, which needs no descriptor then.

        Raises:
            OSError: it cannot be opened.
        """
        if self._folder is not None:
            path = self._folder / file_name(base_offset, _SUFFIX)
            self._ready = path, FileHandle(path, create=True)

    def append(self, entry: AbortedTxn, base_offset: int) -> None:
        """Add one, whose marker lies in the segment with that base offset.

        Raises:
            OSError: it cannot be written.
        """
        if self._folder is not None:
            path = self._folder / file_name(base_offset, _SUFFIX)
            ready, self._ready = self._ready, None
            handle = ready[1] if ready and ready[0] == path else FileHandle(path, create=True)
            handle.write_at(_ENTRY.pack(_VERSION, *entry), handle.size_bytes)
            self._unsynced.add(path)
        self._entries.append(entry)

    def load(self, base_offsets: Iterable[int]) -> bool:
        """Read the files of these segments; False: one of them is damaged, and nothing is read.

        Raises:
            OSError: they cannot be read.
        """
        found: list[AbortedTxn] = []
        for base_offset in base_offsets:
            last = base_offset - 1
            data = self._read(base_offset)
            if len(data) % _ENTRY.size:
                return False
            for version, *fields in _ENTRY.iter_unpack(data):
                entry = AbortedTxn(*fields)
                if version != _VERSION or not last < entry.last_offset >= entry.first_offset >= 0:
                    return False
                last = entry.last_offset
                found.append(entry)
        self._entries = found
        return True

    def _read(self, base_offset: int) -> bytes:
        assert self._folder is not None
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / file_name(base_offset, _SUFFIX)).read_bytes()
        return b""

    def truncate_to(self, offset: int, base_offsets: Iterable[int]) -> None:
        """Forget those whose markers lie at `offset` or beyond, in the segments given.

        Raises:
            OSError: a file cannot be changed.
        """
        entries = self._entries
        self._entries = entries[: bisect_left(entries, offset, key=_last_offset)]
        if self._folder is None:
            return
        for base_offset in base_offsets:
            data = self._read(base_offset)
            whole = len(data) - len(data) % _ENTRY.size
            lasts = (fields[3] for fields in _ENTRY.iter_unpack(data[:whole]))
            kept = sum(1 for last in lasts if last < offset) * _ENTRY.size
            path = self._folder / file_name(base_offset, _SUFFIX)
            if kept == 0:
                path.unlink(missing_ok=True)
            elif kept < len(data):
                replace_file(path, data[:kept], sync=False)
                self._unsynced.add(path)

    def drop_segments(self, base_offsets: Iterable[int], first_offset: int) -> None:
        """Forget those of segments that are gone: their markers lie below `first_offset`.

        Raises:
            OSError: a file cannot be removed.
        """
        entries = self._entries
        if entries:
            self._entries = entries[bisect_left(entries, first_offset, key=_last_offset) :]
        if self._folder is not None and entries:
            for base_offset in base_offsets:
                path = self._folder / file_name(base_offset, _SUFFIX)
                self._unsynced.discard(path)
                path.unlink(missing_ok=True)

    def replace_segments(
        self, base_offsets: Sequence[int], end_offset: int, kept: Sequence[AbortedTxn]
    ) -> None:
        """Keep these alone of neighbouring segments, which are one segment now.

        Args:
            base_offsets: of the segments; the first is that of the new one.
            end_offset: where the segment behind them begins.
            kept: of those whose markers lie in them.

        Raises:
            OSError: a file cannot be changed.
        """
        entries, first = self._entries, base_offsets[0]
        start = bisect_left(entries, first, key=_last_offset)
        end = bisect_left(entries, end_offset, key=_last_offset)
        if start == end:
            return
        self._entries = [*entries[:start], *kept, *entries[end:]]
        if self._folder is None:
            return
        for base_offset in base_offsets[1:]:
            path = self._folder / file_name(base_offset, _SUFFIX)
            self._unsynced.discard(path)
            path.unlink(missing_ok=True)
        path = self._folder / file_name(first, _SUFFIX)
        self._unsynced.discard(path)
        if kept:
            replace_file(path, b"".join(_ENTRY.pack(_VERSION, *each) for each in kept), sync=True)
        else:
            path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Sync what was written: it survives a power cut.

        Raises:
            OSError: syncing failed.
        """
        while self._unsynced:
            path = self._unsynced.pop()
            try:
                with contextlib.suppress(FileNotFoundError):
                    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                    try:
                        os.fsync(fd)
                    finally:
                        os.close(fd)
            except OSError:
                self._unsynced.add(path)
                raise
