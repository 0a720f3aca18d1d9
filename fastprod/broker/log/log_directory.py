"""LogDirectory: the file from which the next start knows which logs were closed (B-C8.2)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, NamedTuple

from fastprod.broker.log.checkpoint_file import read_checkpoint, write_checkpoint

_CLEAN: Final = ".kafka_cleanshutdown"


class CleanEnd(NamedTuple):
    """A log as it was closed: everything in it had been synced, and its indexes were complete."""

    start_offset: int
    end_offset: int


class LogDirectory:
    """A folder of logs, with one file for the clean ends of all of them. Any thread.

    An entry holds as long as the log ends where it did: further records make it void, and code that
    removes records forgets it.

    Args:
        path: the folder; it is read now if it is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._ends: dict[str, CleanEnd] = {}
        for line in read_checkpoint(path / _CLEAN) or ():
            try:
                name, topic_id, start, end = line.split()
                self._ends[f"{name} {topic_id}"] = CleanEnd(int(start), int(end))
            except ValueError:
                continue
        self._saved = dict(self._ends)
        self._unasked = set(self._ends)

    def clean_end(self, log: str) -> CleanEnd | None:
        """How the log ended; None: it is not known to have been closed.

        Args:
            log: name of its folder, a blank, and the topic's id or "-".
        """
        self._unasked.discard(log)
        return self._ends.get(log)

    def forget_unasked(self) -> None:
        """All logs are open: drop the entries of others, which were deleted."""
        with self._lock:
            for log in self._unasked:
                self._ends.pop(log, None)
            self._unasked.clear()

    def note(self, log: str, end: CleanEnd) -> None:
        """The log is closed, with everything synced; `save` writes it down."""
        with self._lock:
            self._ends[log] = end

    def forget(self, log: str) -> bool:
        """Drop a log's entry, as it has changed; returns whether there is anything to save."""
        with self._lock:
            return self._ends.pop(log, None) is not None

    def save(self) -> None:
        """Write the changed entries. Blocks for the disk.

        Raises:
            OSError: it cannot be written; the next start recovers the logs.
        """
        with self._lock:
            if self._ends == self._saved:
                return
            lines = (
                f"{log} {end.start_offset} {end.end_offset}" for log, end in self._ends.items()
            )
            write_checkpoint(self.path / _CLEAN, lines, sync=True)
            self._saved = dict(self._ends)
