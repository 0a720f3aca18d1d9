"""SparkJob: a Spark driver process that writes numbered rows, parts of which are killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark
from confluent_kafka import KafkaException

import spark_jars
from checkout import ROOT
from kept_process import KeptProcess, ProcessFailed
from support.processes import process_tree
from support.processes.closing import Closing
from support.processes.process_tree import Process
from support.records.readers import ReadRecord, end_offsets
from support.spark.sink import reports

SCRIPT = Path(__file__).with_name("driver.py")
START_S = 240.0
GONE_S = 60.0
_POLL_S = 0.1


@dataclasses.dataclass(frozen=True)
class JobPlan:
    """What a driver is to write.

    Attributes:
        master: of Spark.
        row_count: rows, numbered from 0.
        file_count: of a stream's input, one a micro-batch; 0: a batch write.
        partition_count: tasks of a batch write; a micro-batch has two.
        filler_bytes: of each value.
        options: of the sink; `topic` and `kafka.bootstrap.servers` have to be there.
        settings: of the session.
    """

    master: str
    row_count: int
    file_count: int = 0
    partition_count: int = 2
    filler_bytes: int = 90
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def rows_a_file(self) -> int:
        return self.row_count // self.file_count


class SparkJob(Closing):
    """A job that may be killed and started again; leaves no process and no file behind.

    Args:
        plan: what it writes.

    Threads: one.
    """

    def __init__(self, plan: JobPlan) -> None:
        self.plan = plan
        # Not in pytest's folders: Spark's sockets have to have short names.
        self.folder = Path(tempfile.mkdtemp(prefix="fp-job-"))
        self.unfinished_batches: set[int] = set()
        self.kill_count = 0
        self.restarts = 0
        self._seen: set[Process] = set()
        self._written = 0
        (self.folder / "spark").mkdir()
        _link_spark_home(self.folder / "home")
        if plan.file_count:
            self._write_input()
        self._driver = self._start()

    def _write_input(self) -> None:
        folder = self.folder / "input"
        folder.mkdir()
        for number in range(self.plan.file_count):
            first = number * self.plan.rows_a_file
            path = folder / f"{number:03}.txt"
            lines = (f"{row:09}" for row in range(first, first + self.plan.rows_a_file))
            path.write_text("\n".join(lines) + "\n")
            # Files are taken in the order of their times.
            os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))

    def _start(self) -> KeptProcess:
        # A line has ten bytes; two tasks share a file.
        half = str(self.plan.rows_a_file * 5) if self.plan.file_count else "128m"
        plan = {
            **dataclasses.asdict(self.plan),
            "folder": str(self.folder),
            "java": spark_jars.java_options(),
            "options": {**self.plan.options, "fastprod.report.path": str(self.report_path)},
            "settings": {"spark.sql.files.maxPartitionBytes": half, **self.plan.settings},
        }
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "ci"), str(ROOT / "tests")]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(self.folder / "home"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(self.folder / "spark"),
        }
        return KeptProcess(
            "Spark's driver",
            (sys.executable, str(SCRIPT), json.dumps(plan)),
            self.folder / "driver.log",
            folder=self.folder,
            env=environment,
        )

    @property
    def report_path(self) -> Path:
        return self.folder / "report"

    @property
    def pid(self) -> int:
        """Of the driver's Python process."""
        return self._driver.pid

    def wait_for_rows(self, count: int) -> bool:
        """Wait until so many records are in the topic; False: the driver has ended before."""
        deadline_s = time.monotonic() + START_S
        while self.written() < count:
            if not self._driver.is_running:
                return False
            if time.monotonic() > deadline_s:
                raise ProcessFailed(
                    f"{self.written():,} records of {count:,} after {START_S} s\n"
                    f"{self._driver.log_tail()}"
                )
            time.sleep(_POLL_S)
        return True

    def written(self) -> int:
        """How many records the topic has; while a node dies: had, when it could last be asked."""
        options = self.plan.options
        # A node that dies while it is asked is no error of the job's.
        with contextlib.suppress(KafkaException):
            ends = end_offsets(options["kafka.bootstrap.servers"], options["topic"])
            self._written = sum(ends.values())
        return self._written

    def kill_worker(self, chosen: random.Random) -> bool:
        """SIGKILL a Python worker; False: there was none just then."""
        return self._kill_one(process_tree.spark_workers(self.pid), chosen)

    def kill_executor(self, chosen: random.Random) -> bool:
        """SIGKILL an executor's JVM; False: there was none just then."""
        executors = process_tree.java_processes(self.pid, "CoarseGrainedExecutorBackend")
        return self._kill_one(executors, chosen)

    def kill_driver(self, chosen: random.Random, master: str | None = None) -> bool:
        """SIGKILL the driver's Python or its JVM, wait for the end of all of it, start it again.

        Args:
            chosen: which of both.
            master: of Spark from now on; None: as it was.
        """
        if not self._driver.is_running:
            return False
        tree = process_tree.below(self.pid)
        java = [each for each in tree if each.parent_pid == self.pid]
        if java and chosen.random() < 0.5:
            java[0].kill()
            # Its Python finds the connection broken at the next call, and ends by itself.
            self._driver.reap(GONE_S)
        else:
            self._driver.kill()
        self.kill_count += 1
        self._seen.update(tree)
        self.require_gone()
        commits = self.folder / "checkpoint" / "commits"
        if commits.is_dir():
            numbers = [int(path.name) for path in commits.iterdir() if path.name.isdigit()]
            self.unfinished_batches.add(max(numbers, default=-1) + 1)
        elif self.plan.file_count:
            self.unfinished_batches.add(0)
        self.restarts += 1
        self.plan = dataclasses.replace(self.plan, master=master or self.plan.master)
        self._driver = self._start()
        return True

    def _kill_one(self, candidates: list[Process], chosen: random.Random) -> bool:
        self._seen.update(process_tree.below(self.pid))
        if not candidates:
            return False
        chosen.choice(sorted(candidates)).kill()
        self.kill_count += 1
        return True

    def require_gone(self) -> None:
        """Fail if a process of a killed driver's lives on."""
        left = process_tree.wait_until_gone(sorted(self._seen), GONE_S)
        assert not left, f"these outlive their driver by {GONE_S} s: {left}"

    def finish(self, timeout_s: float) -> None:
        """Wait for the end of the job, and of all its processes.

        Raises: ProcessFailed: it did not write all.
        """
        self._driver.wait_for_output("all is written", timeout_s)
        self._seen.update(process_tree.below(self.pid))
        code = self._driver.reap(GONE_S)
        if code:
            raise ProcessFailed(f"the driver ended with code {code}\n{self._driver.log_tail()}")
        self.require_gone()

    def repeated_tasks(self) -> set[tuple[int, int]]:
        """(micro-batch, Spark partition) of the tasks that were done by another attempt."""
        return {
            (line["batch_id"] or 0, task["spark_partition"])
            for line in reports(self.report_path)
            for task in line["tasks"]
            if task["attempt"] > 0
        }

    def close(self) -> None:
        """End what runs, and remove the folder."""
        process_tree.kill_all(self._driver, GONE_S)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclasses.dataclass
class Copies:
    """How often each row is in the topic, and the task that wrote it.

    Attributes:
        counts: by the row's number.
        tasks: Spark partitions of the tasks that wrote it.
    """

    counts: Counter[int]
    tasks: dict[int, set[int]]

    @classmethod
    def of(cls, records: Iterable[ReadRecord]) -> Copies:
        """Count what `driver` wrote."""
        found = cls(Counter(), {})
        for record in records:
            partition, number, _ = (record.value or b"").split(b" ")
            found.counts[int(number)] += 1
            found.tasks.setdefault(int(number), set()).add(int(partition))
        return found

    def missing(self, row_count: int) -> set[int]:
        """The rows that are not there."""
        return set(range(row_count)) - self.counts.keys()

    def repeated(self) -> dict[int, int]:
        """The rows that are there more than once, and how often."""
        return {row: count for row, count in self.counts.items() if count > 1}


def _link_spark_home(home: Path) -> None:
    """Spark as in its package; a local-cluster makes its folder of work in there."""
    home.mkdir()
    package = pyspark.__file__
    assert package is not None
    for path in Path(package).parent.iterdir():
        (home / path.name).symlink_to(path)
