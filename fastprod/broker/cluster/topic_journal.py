"""TopicJournal: the topics of a folder in one file, to which each change adds a line.

The first line is an object with the format and the cluster's id. Each line behind it is a CRC-32
in eight hexadecimal digits, a blank, and an object with two lists: topics as they are from then on,
and ids of topics that are gone. A line is synced before its change can be seen; a line
that a crash cut short was never seen, and is ignored. The topics of the last deletion stay in the
file until the next one: their folders may not be gone yet.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastprod.broker.cluster.topics import SavedPartition, SavedTopic
from fastprod.broker.log.segments.file_handle import FileHandle, replace_file

_log = logging.getLogger(__name__)

FORMAT_VERSION = 2
_OLD_VERSION = 1
# Below this size the journal is not written anew.
_SPARE_BYTES = 64 * 1024


class TopicJournal:
    """One such file. The caller holds a lock.

    Args:
        path: of the file.

    Attributes:
        deleted: topics that `read` found deleted, until `begin`: they may have folders still.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.deleted: list[SavedTopic] = []
        self._file: FileHandle | None = None
        self._head = b""
        # The JSON that was last written for each topic, by its id.
        self._rows: dict[str, bytes] = {}
        # The same for the topics of the last deletion.
        self._gone: dict[str, bytes] = {}
        self._live_bytes = 0
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Size of the file; 0 before it is written."""
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
        deleted: dict[str, Any] = {}
        if version == _OLD_VERSION:
            rows = {row["id"]: row for row in head["topics"]}
        elif version == FORMAT_VERSION:
            rows, deleted = _replayed(lines)
        else:
            raise ValueError(
                f"it has format {version}; this version reads up to format {FORMAT_VERSION}"
            )
        topics = sorted(_decoded(row) for row in rows.values())
        self.deleted = [_decoded(row) for row in deleted.values()]
        return str(head["cluster_id"]), topics

    def begin(self, cluster_id: str, topics: Iterable[SavedTopic]) -> None:
        """Write the file anew, with these topics alone; those that are deleted have no folders.

        Raises:
            OSError: it cannot be written; the old file stays.
        """
        head = {"format_version": FORMAT_VERSION, "cluster_id": cluster_id}
        rows = {topic.id.hex(): _encoded(topic) for topic in topics}
        self._rewrite(json.dumps(head).encode() + b"\n", rows, {})
        self.deleted = []

    def add(self, changed: Iterable[SavedTopic], deleted: Iterable[bytes]) -> None:
        """Write down topics as they are now, and ids of topics that are gone: all or nothing.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is None:
            # An incomplete line of the last attempt could not be cut off.
            self._rewrite(self._head, self._rows, self._gone)
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
        if gone:
            self._live_bytes -= sum(map(len, self._gone.values()))
            self._gone = {id: self._rows.pop(id) for id in gone if id in self._rows}
        for id, row in rows.items():
            self._live_bytes += len(row) - len(self._rows.get(id, b""))
            self._rows[id] = row
        if self._size_bytes > 2 * self._live_bytes + _SPARE_BYTES:
            self._compact()

    def close(self) -> None:
        """Close the file."""
        self._file = None

    def _compact(self) -> None:
        try:
            self._rewrite(self._head, self._rows, self._gone)
        except OSError as error:
            # The change itself is written down; the next one tries again to write anew.
            _log.warning("%s cannot be made shorter: %s", self.path, error)

    def _rewrite(self, head: bytes, rows: dict[str, bytes], gone: dict[str, bytes]) -> None:
        lines = [_line([row], []) for row in gone.values()]
        if gone:
            lines.append(_line([], list(gone)))
        lines += [_line([row], []) for row in rows.values()]
        content = b"".join((head, *lines))
        replace_file(self.path, content, sync=True)
        self._file = FileHandle(self.path)
        self._head, self._rows, self._gone = head, dict(rows), dict(gone)
        self._size_bytes = len(content)
        self._live_bytes = sum(map(len, (*rows.values(), *gone.values())))

    def _cut(self) -> None:
        """Cut off an incomplete line: its change was never seen."""
        assert self._file is not None
        try:
            self._file.truncate(self._size_bytes)
        except OSError:
            self._file = None


def _line(rows: Iterable[bytes], deleted: list[str]) -> bytes:
    text = b'{"topics":[%b],"deleted":%b}' % (b",".join(rows), json.dumps(deleted).encode())
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _replayed(lines: list[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Topics by id, after all changes, and those that were deleted.

    Raises:
        ValueError: a line is damaged that is not the last.
    """
    rows: dict[str, Any] = {}
    deleted: dict[str, Any] = {}
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
            if id in rows:
                deleted[id] = rows.pop(id)
        for row in change["topics"]:
            rows[row["id"]] = row
    return rows, deleted


def _change(line: bytes) -> Any:
    """What a line says; None: it is incomplete or damaged."""
    crc, _, text = line.partition(b" ")
    return json.loads(text) if crc == b"%08x" % zlib.crc32(text) else None


def _encoded(topic: SavedTopic) -> bytes:
    row = {
        "name": topic.name,
        "id": topic.id.hex(),
        "config": topic.config,
        "partitions": [_partition(each) for each in topic.partitions],
    }
    return json.dumps(row, separators=(",", ":")).encode()


def _partition(saved: SavedPartition) -> dict[str, Any]:
    row: dict[str, Any] = {"replicas": saved.replicas, "leader_epoch": saved.leader_epoch}
    if saved.isr is not None:
        row["isr"] = saved.isr
    if saved.adding or saved.removing:
        row |= {"adding": list(saved.adding), "removing": list(saved.removing)}
    return row


def _decoded(row: Any) -> SavedTopic:
    return SavedTopic(
        str(row["name"]),
        bytes.fromhex(row["id"]),
        dict(row["config"]),
        [
            SavedPartition(
                list(each["replicas"]),
                int(each["leader_epoch"]),
                each.get("isr"),
                tuple(each.get("adding", ())),
                tuple(each.get("removing", ())),
            )
            for each in row["partitions"]
        ],
    )
