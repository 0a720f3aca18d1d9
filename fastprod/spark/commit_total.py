"""CommitTotal: the file in which the sink adds up what its commits have written."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fastprod.spark.write_result import WriteResult, added_up


class Committed(NamedTuple):
    """What the commits so far have written; `batch_id`: of the last, None for a DataFrame."""

    total: WriteResult
    batch_id: int | None


class CommitTotal:
    """A temporary file for `fastprod.total.path`, on the driver; as long as one commit's figures.

    Each commit of a stream runs in a process of its own, so that only a file can add them up. It
    appears whole or not at all.

    Threads: any; one process at a time may `add`.
    """

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="fastprod-commits-", suffix=".json")
        os.close(descriptor)
        self.path = Path(name)

    def read(self) -> Committed | None:
        """What is there; None: no commit yet, or none that could be noted."""
        return _read(self.path)

    def close(self) -> None:
        """Remove the file; later commits are not noted."""
        for path in (self.path, _part(self.path)):
            with contextlib.suppress(OSError):
                path.unlink()


def add(path: Path, summary: Mapping[str, Any], batch_id: int | None) -> None:
    """Add a commit, as `fastprod.spark.task_report.summary` tells it, to the file.

    Raises:
        OSError: the file is gone, or the folder takes no more.
    """
    before = _read(path)
    told = added_up([summary])
    total = told if before is None else before.total + told
    _part(path).write_text(
        json.dumps({"batch_id": batch_id, **total.as_json(), "seconds": total.seconds}),
        encoding="utf-8",
    )
    _part(path).replace(path)


def _read(path: Path) -> Committed | None:
    text = path.read_text(encoding="utf-8")
    if not text:
        return None
    found = json.loads(text)
    batch_id = found.pop("batch_id")
    return Committed(WriteResult.from_json(found), batch_id)


def _part(path: Path) -> Path:
    return path.with_suffix(".part")
