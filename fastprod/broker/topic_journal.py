"""TopicJournal: the topics of a folder in one file, to which each change adds a line.

The first line is an object with the format and the cluster's id. Each line behind it is a CRC-32
in eight hexadecimal digits, a blank, and an object with two lists: topics as they are from then on,
and ids of topics that are gone. A line is synced before anybody is told of its change; one that a
crash cut short has told nobody and counts for nothing.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastprod.broker.log.file_handle import FileHandle, replace_file
from fastprod.broker.topics import SavedPartition, SavedTopic

_log = logging.getLogger(__name__)

FORMAT_VERSION = 2
_OLD_VERSION = 1
# A journal of a few topics is not written anew with each change.
_SPARE_BYTES = 64 * 1024


class TopicJournal:
    """One such file. The caller holds a lock.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileHandle | None = None
        self._head = b""
        # Of each topic the JSON that was written last, by its id.
        self._rows: dict[str, bytes] = {}
        self._live_bytes = 0
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Of the file; 0 before it is written."""
        return self._size_bytes

    def read(self) -> tuple[str | None, list[SavedTopic]]:
        """Return the cluster's id, None if there is no file, and its topics by name.

        A file of format 1, one object in all, is read as well.

        Raises:
            OSError: it cannot be read.
            KeyError, TypeError, ValueError: it cannot be understood.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None, []
        first, *lines = content.split(b"\n")
        try:
            head = json.loads(first)
        except ValueError:
            head = None
        if not isinstance(head, dict) or head["format_version"] == _OLD_VERSION:
            head, lines = json.loads(content), []
        version = head["format_version"]
        if version == _OLD_VERSION:
            rows = {row["id"]: row for row in head["topics"]}
        elif version == FORMAT_VERSION:
            rows = _replayed(lines)
        else:
            raise ValueError(
                f"it has format {version}; this version reads up to format {FORMAT_VERSION}"
            )
        topics = sorted(_decoded(row) for row in rows.values())
        return str(head["cluster_id"]), topics

    def begin(self, cluster_id: str, topics: Iterable[SavedTopic]) -> None:
        """Write the file anew, with these topics alone.

        Raises:
            OSError: it cannot be written; the old one stands.
        """
        head = {"format_version": FORMAT_VERSION, "cluster_id": cluster_id}
        rows = {topic.id.hex(): _encoded(topic) for topic in topics}
        self._rewrite(json.dumps(head).encode() + b"\n", rows)

    def add(self, changed: Iterable[SavedTopic], deleted: Iterable[bytes]) -> None:
        """Write down topics as they are now, and ids of topics that are gone: all or nothing.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is None:
            # What the last attempt left behind could not be cut off.
            self._rewrite(self._head, self._rows)
        assert self._file is not None
        rows = {topic.id.hex(): _encoded(topic) for topic in changed}
        gone = [id.hex() for id in deleted]
        line = _line(rows.values(), gone)
        try:
            self._file.write_at(line, self._size_bytes)
            self._file.sync()
        except OSError:
            self._cut()
            raise
        self._size_bytes += len(line)
        for id in gone:
            self._live_bytes -= len(self._rows.pop(id, b""))
        for id, row in rows.items():
            self._live_bytes += len(row) - len(self._rows.get(id, b""))
            self._rows[id] = row
        if self._size_bytes > 2 * self._live_bytes + _SPARE_BYTES:
            self._compact()

    def close(self) -> None:
        """Let go of the file."""
        self._file = None

    def _compact(self) -> None:
        try:
            self._rewrite(self._head, self._rows)
        except OSError as error:
            # What was to be written down is: the next change tries again.
            _log.warning("%s cannot be made shorter: %s", self.path, error)

    def _rewrite(self, head: bytes, rows: dict[str, bytes]) -> None:
        lines = [_line([row], []) for row in rows.values()]
        content = b"".join((head, *lines))
        replace_file(self.path, content, sync=True)
        self._file = FileHandle(self.path)
        self._head, self._rows = head, dict(rows)
        self._size_bytes = len(content)
        self._live_bytes = sum(map(len, rows.values()))

    def _cut(self) -> None:
        """Take back a line that is not whole: nobody was told of its change."""
        assert self._file is not None
        try:
            self._file.truncate(self._size_bytes)
        except OSError:
            self._file = None


def _line(rows: Iterable[bytes], deleted: list[str]) -> bytes:
    text = b'{"topics":[%b],"deleted":%b}' % (b",".join(rows), json.dumps(deleted).encode())
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _replayed(lines: list[bytes]) -> dict[str, Any]:
    """Topics by id, after all changes.

    Raises:
        ValueError: a line is damaged that is not the last.
    """
    rows: dict[str, Any] = {}
    if not lines:
        raise ValueError("its first line has no end")
    # Behind the last line's end there is nothing, or the beginning of a line.
    for number, line in enumerate(lines[:-1], start=2):
        change = _change(line)
        if change is None:
            if any(_change(each) for each in lines[number - 1 : -1]):
                raise ValueError(f"line {number} is damaged")
            break
        for id in change["deleted"]:
            rows.pop(id, None)
        for row in change["topics"]:
            rows[row["id"]] = row
    return rows


def _change(line: bytes) -> Any:
    """What a line says; None: it is not whole."""
    crc, _, text = line.partition(b" ")
    return json.loads(text) if crc == b"%08x" % zlib.crc32(text) else None


def _encoded(topic: SavedTopic) -> bytes:
    row = {
        "name": topic.name,
        "id": topic.id.hex(),
        "config": topic.config,
        "partitions": [each._asdict() for each in topic.partitions],
    }
    return json.dumps(row, separators=(",", ":")).encode()


def _decoded(row: Any) -> SavedTopic:
    return SavedTopic(
        str(row["name"]),
        bytes.fromhex(row["id"]),
        dict(row["config"]),
        [
            SavedPartition(list(each["replicas"]), int(each["leader_epoch"]))
            for each in row["partitions"]
        ],
    )
