"""LoadRun: `fastprod spark-load` as a process, interrupted and run again; and what it loads."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

import spark_jars
from checkout import ROOT
from kept_process import KeptProcess
from support.processes import process_tree
from support.processes.closing import Closing
from support.processes.process_tree import Process

GONE_S = 60.0
VALUE_BYTES = 100


@dataclasses.dataclass(frozen=True)
class NumberedFiles:
    """Parquet files whose values begin with the number of the row, so many a row group.

    Attributes:
        folder: where they are.
        file_count: how many.
        groups_a_file: row groups.
        rows_a_group: rows.
    """

    folder: Path
    file_count: int
    groups_a_file: int
    rows_a_group: int

    @property
    def row_count(self) -> int:
        return self.file_count * self.groups_a_file * self.rows_a_group

    def write(self) -> None:
        """Make them."""
        self.folder.mkdir()
        schema = pyarrow.schema([("value", pyarrow.string())])
        filler = "x" * (VALUE_BYTES - 9)
        row = 0
        for number in range(self.file_count):
            with pyarrow.parquet.ParquetWriter(self.path(number), schema) as writer:
                for _ in range(self.groups_a_file):
                    rows = range(row, row + self.rows_a_group)
                    writer.write_table(
                        pyarrow.table({"value": [f"{each:09}{filler}" for each in rows]}, schema)
                    )
                    row += self.rows_a_group

    def path(self, number: int) -> Path:
        """A file."""
        return self.folder / f"{number:03}.parquet"

    def rows_of(self, path: str, unit: str, start: int, stop: int) -> range:
        """The rows of a split as the manifest has it."""
        assert unit == "row_groups"
        first = int(Path(path).stem) * self.groups_a_file
        return range((first + start) * self.rows_a_group, (first + stop) * self.rows_a_group)


class LoadRun(Closing):
    """One run of the command in a scratch folder of its own; leaves no process behind.

    Args:
        arguments: of `fastprod spark-load`.
        env: added to the environment.

    Threads: one.
    """

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        # Not in pytest's folders: Spark's sockets have to have short names.
        self.folder = Path(tempfile.mkdtemp(prefix="fp-load-"))
        settings = {
            "spark.local.dir": str(self.folder),
            "spark.sql.warehouse.dir": f"{self.folder}/warehouse",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": spark_jars.java_options(
                f"-Djava.io.tmpdir={self.folder}"
            ),
        }
        conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        self._process = KeptProcess(
            "fastprod spark-load",
            (sys.executable, "-m", "fastprod", "spark-load", *arguments, *conf),
            self.folder / "log",
            folder=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "TMPDIR": str(self.folder),
                **(env or {}),
            },
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    def output(self) -> str:
        """What it has printed so far, on both streams."""
        return self._process.output()

    def progress(self) -> list[dict[str, Any]]:
        """What `--progress json` has told so far."""
        lines = [line for line in self.output().splitlines() if line.startswith('{"elapsed_s"')]
        return [json.loads(line) for line in lines]

    def interrupt(self) -> None:
        """Ctrl-C, without waiting for what it does."""
        self._process.send_signal(signal.SIGINT)

    def end(self, number: signal.Signals | None, timeout_s: float) -> int:
        """Send a signal, or none; wait until it and its children have ended; return its code."""
        tree: list[Process] = process_tree.below(self.pid)
        if number is not None:
            self._process.send_signal(number)
        left = process_tree.wait_until_gone(process_tree.itself(self.pid), timeout_s)
        assert not left, f"it runs on after {timeout_s} s\n{self._process.log_tail()}"
        code = self._process.reap(GONE_S)
        left = process_tree.wait_until_gone(tree, GONE_S)
        assert not left, f"these outlive the command by {GONE_S} s: {left}"
        return code

    def close(self) -> None:
        """End what runs, and remove the scratch folder."""
        process_tree.kill_all(self._process, GONE_S)
        shutil.rmtree(self.folder, ignore_errors=True)
