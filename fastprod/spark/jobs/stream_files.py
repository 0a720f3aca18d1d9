"""StreamFiles: follows the files that a stream takes, as Spark takes each once and tells nothing.

It reads a file as it is just then, and never again; one that is gone when its micro-batch comes is
passed over, and so are files in folders that appear below the stream's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from fastprod.load.input_files import InputError, check_name, is_local, is_mark
from fastprod.load.stream_check import SparkFile, StreamCheck, local_path

Seen = tuple[str, int, int]
"""A file of which rows came by: its URL, and size and time of change (ms) as Spark found them."""

# What follows is a path as it is: Hadoop takes a % there for itself.
_SCHEME: Final = re.compile(r"^file:(//[^/]*)?")

_RECENT: Final = 1_000
_LOOK_S: Final = 1.0
_WALK_S: Final = 10.0
_WALKING: Final = 0.02  # the part of the time that looking through folders may take


def seen_files(context: SparkContext) -> Accumulator[deque[Seen]]:
    """What tasks add files to."""
    none: deque[Seen] = deque()
    return context.accumulator(none, _SeenParam())


class _SeenParam(AccumulatorParam[deque[Seen]]):
    """Files that tasks have read; Spark brings them to the driver as each task ends."""

    def zero(self, value: deque[Seen]) -> deque[Seen]:
        """None."""
        return deque()

    def addInPlace(self, value1: deque[Seen], value2: Iterable[Seen]) -> deque[Seen]:
        """Both."""
        value1.extend(value2)
        return value1


@dataclass(frozen=True)
class _Taken:
    """A file that a micro-batch has taken; its size is not known if no row of it came by."""

    path: str
    size_bytes: int | None
    time_ms: int


class StreamFiles:
    """Looks whether the files that a query has read are still as they were.

    Args:
        seen: what tasks add to.
        folder: of the stream, on this machine.
        checkpoint: of the query; where it is not on this machine, nobody knows of files of which
            no row came by.
        by_folders: whether Spark passes over folders that are not named name=value.
        is_cleaned: whether Spark removes files that it has read.

    Threads: one; Spark adds to `seen` in another.
    """

    def __init__(
        self,
        seen: Accumulator[deque[Seen]],
        folder: str,
        checkpoint: str,
        *,
        by_folders: bool,
        is_cleaned: bool,
    ) -> None:
        self._seen = seen
        self._folder = Path(folder).absolute()
        self._checkpoint = (
            Path(_SCHEME.sub("", checkpoint, count=1)) if is_local(checkpoint) else None
        )
        self._by_folders = by_folders
        self._is_cleaned = is_cleaned
        self._known: dict[str, _Taken] = {}
        self._recent: deque[_Taken] = deque(maxlen=_RECENT)
        self._batch_id = self._last_committed()
        self._offsets = self._offsets_of(self._batch_id)
        self._look_s = self._walk_s = time.monotonic()

    def look(self, check: StreamCheck, batch_id: int | None, *, is_last: bool = False) -> None:
        """Look at the files of the micro-batches up to `batch_id`, and now and then at others.

        Args:
            check: what files must be like.
            batch_id: of the last that was committed; None: none yet.
            is_last: whether to look at all now.

        Raises:
            InputError: a file was gone before it was read, has changed since, or will not be read.
        """
        while self._seen.value:
            url, size_bytes, time_ms = self._seen.value.popleft()
            path = local_path(url)
            self._known[path] = _Taken(path, size_bytes, time_ms)
        if batch_id is not None and batch_id != self._batch_id:
            self._batch_id = batch_id
            self._follow(check)
        now_s = time.monotonic()
        if is_last or now_s - self._look_s > _LOOK_S:
            self._look_s = now_s
            self._look_again()
        if is_last or now_s - self._walk_s > _WALK_S:
            if self._by_folders:
                self._look_below()
            # A folder with very many files takes a while.
            self._walk_s = time.monotonic() + (time.monotonic() - now_s) / _WALKING

    def _follow(self, check: StreamCheck) -> None:
        """Look at each file of the micro-batches since the last call."""
        if self._checkpoint is None:
            self._recent.extend(self._known.values())
            self._known.clear()
            return
        offsets = self._offsets_of(self._batch_id)
        taken: dict[str, tuple[str, int]] = {}
        for source, last in offsets.items():
            for number in range(self._offsets.get(source, -1) + 1, last + 1):
                for url, time_ms in self._entries(source, number):
                    taken[local_path(url)] = url, time_ms
        self._offsets.update(offsets)
        for path, (url, time_ms) in taken.items():
            # Those of the micro-batch that runs now are known already, and stay.
            known = self._known.pop(path, None)
            if known is None:
                self._look_at_unread(check, url, time_ms)
            else:
                self._recent.append(known)

    def _look_at_unread(self, check: StreamCheck, url: str, time_ms: int) -> None:
        """Look at a file of which no row came by."""
        path = local_path(url)
        taken = _Taken(path, None, time_ms)
        try:
            size_bytes = Path(path).stat().st_size
        except OSError:
            if self._is_cleaned:
                return
            raise InputError(
                f"{path} was gone before Spark had read it, or had no rows: put it back by another "
                f"name, and leave files where they are until they are read"
            ) from None
        _refuse_changed(taken)
        if size_bytes:
            check.check(SparkFile(url, 0, size_bytes))
        self._recent.append(taken)

    def _look_again(self) -> None:
        for taken in self._recent:
            _refuse_changed(taken)

    def _look_below(self) -> None:
        for folder, below, names in os.walk(self._folder):
            below[:] = [name for name in below if not is_mark(name)]
            inside = Path(folder).relative_to(self._folder).parts
            is_read = all("=" in name for name in inside)
            for name in names:
                path = f"{folder}/{name}"
                if not is_mark(name):
                    check_name(path)
                    if not is_read:
                        raise not_read(path, str(self._folder))
            for name in below:
                if Path(folder, name).is_symlink():
                    raise InputError(f"{folder}/{name} is a link to a folder, which is not read")

    def _last_committed(self) -> int | None:
        if self._checkpoint is None:
            return None
        with contextlib.suppress(OSError):
            commits = [path.name for path in (self._checkpoint / "commits").iterdir()]
            return max((int(name) for name in commits if name.isdigit()), default=None)
        return None

    def _offsets_of(self, batch_id: int | None) -> dict[int, int]:
        """How far a micro-batch has read the log of each source of files; empty: it is not known.

        The file has a version, a line of settings, and one for each source.
        """
        if self._checkpoint is None or batch_id is None:
            return {}
        found = {}
        with contextlib.suppress(OSError, ValueError):
            path = self._checkpoint / "offsets" / str(batch_id)
            for source, line in enumerate(path.read_text().splitlines()[2:]):
                offset = json.loads(line) if line.startswith("{") else None
                if isinstance(offset, dict) and "logOffset" in offset:
                    found[source] = int(offset["logOffset"])
        return found

    def _entries(self, source: int, number: int) -> Iterator[tuple[str, int]]:
        """URL and time of change (ms) of the files that Spark has taken at one time."""
        assert self._checkpoint is not None
        # Now and then Spark writes all of its log anew.
        for name in (str(number), f"{number}.compact"):
            with contextlib.suppress(OSError):
                path = self._checkpoint / "sources" / str(source) / name
                for line in path.read_text().splitlines()[1:]:
                    if line.endswith(f'"batchId":{number}}}'):
                        entry: dict[str, Any] = json.loads(line)
                        yield entry["path"], entry["timestamp"]
                return


def not_read(path: str, folder: str) -> InputError:
    """The refusal of a file in a folder that Spark passes over."""
    return InputError(
        f"{path} would not be read: of the folders below {folder} Spark reads those named "
        f"name=value; name the folder itself, or give -O recursiveFileLookup=true, by which no "
        f"folder makes a column"
    )


def _refuse_changed(taken: _Taken) -> None:
    """Refuse a file that is not as it was; one that is gone now has been read.

    Raises:
        InputError: it has changed.
    """
    try:
        now = Path(taken.path).stat()
    except OSError:
        return
    is_same_size = taken.size_bytes in (None, now.st_size)
    if not is_same_size or taken.time_ms != now.st_mtime_ns // 1_000_000:
        then = "" if taken.size_bytes is None else f" ({taken.size_bytes:,} bytes then)"
        raise InputError(
            f"{taken.path} has changed since Spark read it{then}, {now.st_size:,} bytes now: a "
            f"stream reads a file once, as it is when it is found: put what is missing into a file "
            f"of another name; files are to be written elsewhere and moved into the folder"
        )
