"""CommitLog: the file to which the sink adds a line a commit, read as it grows."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

_ROTATE_BYTES: Final = 4 * 1024 * 1024


class CommitLog:
    """A temporary file for `fastprod.report.path`, on the driver.

    Threads: one at a time; the sink may add lines meanwhile.
    """

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="fastprod-commits-", suffix=".jsonl")
        os.close(descriptor)
        self.path = Path(name)
        self._old = self.path.with_suffix(".old")
        self._read_bytes = 0

    def new_lines(self) -> list[dict[str, Any]]:
        """What was added since the last call: one object a commit."""
        found = []
        if self._old.exists():
            # Whoever had the file open when it was moved away has written to it by now.
            found += self._rest(self._old)
            self._old.unlink()
            self._read_bytes = 0
        found += self._rest(self.path)
        if self._read_bytes > _ROTATE_BYTES:
            self.path.rename(self._old)
        return found

    def close(self) -> None:
        """Remove the file."""
        for path in (self.path, self._old):
            with contextlib.suppress(OSError):
                path.unlink()

    def _rest(self, path: Path) -> list[dict[str, Any]]:
        try:
            with path.open("rb") as file:
                file.seek(self._read_bytes)
                data = file.read()
        except FileNotFoundError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]
