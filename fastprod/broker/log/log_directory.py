"""What the logs of one folder tell the next start: which of them ended well (C8.2)."""

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

    What the file says of a log stands for as long as the log ends where it did: more records make
    it void by themselves, and whoever takes some away forgets it.

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

    def clean_end(self, log: str) -> CleanEnd | None:
        """How the log ended; None: not well, as far as is known.

        Args:
            log: name of its folder, a blank, and the topic's id or "-".
        """
        return self._ends.get(log)

    def note(self, log: str, end: CleanEnd) -> None:
        """The log is closed, with everything synced; `save` writes it down."""
        with self._lock:
            self._ends[log] = end

    def forget(self, log: str) -> bool:
        """It is not as it ended any more; returns whether there is anything to be saved."""
        with self._lock:
            return self._ends.pop(log, None) is not None

    def save(self) -> None:
        """Write down what was noted and forgotten since. Blocks for the disk.

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
