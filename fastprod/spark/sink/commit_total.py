"""CommitTotal: the file in which commits add up the numbers of what they have written."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fastprod.spark.sink.write_result import WriteResult, added_up

_log = logging.getLogger("fastprod.spark")


class Committed(NamedTuple):
    """What the commits so far have written; `batch_id`: of the last, None for a DataFrame."""

    total: WriteResult
    batch_id: int | None


class CommitTotal:
    """A temporary file for `fastprod.total.path`, on the driver, as large as one commit's numbers.

    Each commit of a stream runs in a process of its own, so that only a file can add them up. It
    is replaced as a whole or not at all.

    Threads: any; one process at a time may `add`.
    """

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="fastprod-commits-", suffix=".json")
        os.close(descriptor)
        self.path = Path(name)
        self._is_told = False

    def read(self) -> Committed | None:
        """The total; None: no commit yet, or none that could be noted.

        A damaged or missing file is reported once, in the log "fastprod.spark": what it counted is
        in Kafka all the same.
        """
        try:
            return found(self.path)
        except (OSError, ValueError) as error:
            if not self._is_told:
                _log.warning("what the commits have written is not known: %s", error)
            self._is_told = True
            return None

    def close(self) -> None:
        """Remove the file; later commits are not noted."""
        for path in (self.path, _part(self.path)):
            with contextlib.suppress(OSError):
                path.unlink()


def add(path: Path, summary: Mapping[str, Any], batch_id: int | None) -> None:
    """Add a commit, as summed up by `fastprod.spark.sink.task_report.summary`, to the file.

    Raises:
        OSError: the file is gone, or the folder takes no more.
        ValueError: the file holds no total; it is left as it is.
    """
    before = found(path)
    told = added_up([summary])
    total = told if before is None else before.total + told
    _part(path).write_text(
        json.dumps({"batch_id": batch_id, **total.as_json(), "seconds": total.seconds}),
        encoding="utf-8",
    )
    _part(path).replace(path)


def found(path: Path) -> Committed | None:
    """Read the file; None: no commit yet.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no total, or no file can have the path.
    """
    data = path.read_bytes()
    if not data:
        return None
    try:
        told = json.loads(data)
        batch_id = told.pop("batch_id")
        # Adding up finds values that are no numbers.
        return Committed(WriteResult() + WriteResult.from_json(told), batch_id)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no total of commits: {error}") from error


def _part(path: Path) -> Path:
    return path.with_suffix(".part")
