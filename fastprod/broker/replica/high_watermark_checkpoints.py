"""High watermarks that a restart finds again (Kafka's replication-offset-checkpoint)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from fastprod.broker.log.checkpoint_file import read_checkpoint, write_checkpoint

_log = logging.getLogger(__name__)

CHECKPOINT_NAME = "replication-offset-checkpoint"
"""File in each node's folder of logs: version, count, and lines of topic, partition and offset."""

Offsets = Mapping[tuple[str, int], int]
"""High watermarks by topic and partition."""


class HighWatermarkCheckpoints:
    """One file for each node, written some time after a high watermark has moved. Any thread.

    After a crash the offsets are as they were up to `interval_ms` before: lower, never higher, and
    followers that fetch raise them. A file that cannot be read counts as missing, and the log says
    so: its high watermarks begin where their logs do.

    Args:
        folder_of: where a node keeps its logs; the folder exists.
        offsets: the high watermarks as they are now, by node.
        run_later: calls a function after so many milliseconds, on another thread.
        interval_ms: from a move of a high watermark until it is written down.
    """

    def __init__(
        self,
        folder_of: Callable[[int], Path],
        offsets: Callable[[], Mapping[int, Offsets]],
        run_later: Callable[[float, Callable[[], None]], object],
        interval_ms: int,
    ) -> None:
        self._folder_of = folder_of
        self._offsets = offsets
        self._run_later = run_later
        self._interval_ms = interval_ms
        self._plan_lock = threading.Lock()
        # Held while a file is written, so never by who moves a high watermark.
        self._file_lock = threading.Lock()
        self._saved: dict[int, Offsets] = {}
        self._has_begun = self._is_planned = False

    def kept(self, node_id: int, topic: str, partition: int) -> int:
        """What a node's file says of a partition; 0: nothing."""
        with self._file_lock:
            return self._file(node_id).get((topic, partition), 0)

    def begin(self) -> None:
        """All replicas are there: what is written from now on has all of them."""
        self._has_begun = True

    def moved(self) -> None:
        """A high watermark has moved. The partition's lock may be held."""
        if self._is_planned or not self._has_begun:
            return
        with self._plan_lock:
            is_planned, self._is_planned = self._is_planned, True
        if not is_planned:
            self._run_later(self._interval_ms, self._save_planned)

    def _save_planned(self) -> None:
        # First: what moves from here on is for the next time.
        self._is_planned = False
        self.save()

    def save(self) -> None:
        """Write down what has changed, and log what cannot be written. Blocks for the disk."""
        if not self._has_begun:
            return
        with self._file_lock:
            for node_id, offsets in self._offsets().items():
                if offsets == self._file(node_id):
                    continue
                try:
                    self._write(node_id, offsets)
                except OSError as error:
                    _log.error("high watermarks of node %d are not kept: %s", node_id, error)

    def _path(self, node_id: int) -> Path:
        return self._folder_of(node_id) / CHECKPOINT_NAME

    def _file(self, node_id: int) -> Offsets:
        """What the file of a node says; the lock is held."""
        if node_id not in self._saved:
            self._saved[node_id] = _read(self._path(node_id))
        return self._saved[node_id]

    def _write(self, node_id: int, offsets: Offsets) -> None:
        lines = (f"{topic} {index} {offset}" for (topic, index), offset in offsets.items())
        write_checkpoint(self._path(node_id), lines, sync=True)
        self._saved[node_id] = offsets


def _read(path: Path) -> Offsets:
    if not path.exists():
        return {}
    offsets: dict[tuple[str, int], int] = {}
    try:
        for line in _entries(path):
            topic, index, offset = line.split()
            offsets[topic, int(index)] = int(offset)
    except (OSError, ValueError) as error:
        _log.warning(
            "%s cannot be read (%s): the high watermarks begin where the logs do, until followers "
            "have fetched",
            path,
            error,
        )
        return {}
    return offsets


def _entries(path: Path) -> list[str]:
    entries = read_checkpoint(path)
    if entries is None:
        raise ValueError("it is damaged")
    return entries
