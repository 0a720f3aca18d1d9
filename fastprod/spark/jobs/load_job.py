"""LoadJob: loads files into a topic with one of the engines, and ends cleanly on Ctrl-C."""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from fastprod.load.file_splits import FileSplit, split_file
from fastprod.load.input_files import (
    InputFile,
    base_path,
    literal,
    reads_by_folders,
    spark_paths,
)
from fastprod.load.load_request import LoadPlan
from fastprod.spark.interrupt import Interrupt
from fastprod.spark.jobs.direct_engine import DirectEngine, NumberedSplit
from fastprod.spark.jobs.file_records import file_records
from fastprod.spark.jobs.frame_engine import record_options
from fastprod.spark.jobs.manifest import Manifest
from fastprod.spark.jobs.tasks_at_once import tasks_at_once
from fastprod.spark.sink.api import write
from fastprod.spark.sink.options import SinkOptions, sink_options
from fastprod.spark.sink.write_result import WriteResult, added_up

_WATCH_S: Final = 0.2
_CANCEL_S: Final = 15.0
_WAVE_BYTES: Final = 1024 * 1024 * 1024
_WAVE_COUNT: Final = 20


@dataclasses.dataclass
class LoadState:
    """How far a job is; `LoadJob.run` updates it.

    Attributes:
        total_bytes: of the files that this run has to load; 0: not known.
        done_bytes: of them, loaded.
        total_tasks: splits, or Spark's tasks as far as they are known.
        done_tasks: of them, ended.
        summaries: reports of the tasks of this run.
        earlier: reports of earlier runs of the job.
        seconds: time of this run, without the start of the session.
    """

    total_bytes: int = 0
    done_bytes: int = 0
    total_tasks: int = 0
    done_tasks: int = 0
    summaries: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    earlier: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def result(self) -> WriteResult:
        """What this run is known to have written; all of it is acknowledged."""
        # Tasks run side by side: their times do not add up to that of the job.
        return dataclasses.replace(added_up(self.summaries), seconds=self.seconds)


class LoadJob:
    """One run of a load.

    Args:
        spark: the session.
        plan: what to load, and how.

    Threads: one.
    """

    def __init__(self, spark: SparkSession, plan: LoadPlan) -> None:
        self.state = LoadState()
        self._spark = spark
        self._plan = plan
        self._began_s = time.monotonic()
        self._group = f"fastprod-{uuid.uuid4().hex}"
        # Jobs of Spark that only read the files' schema are in the other group.
        self._writing_group = f"{self._group}-write"
        self._wave: tuple[int, int] = (0, 0)
        self._engine: DirectEngine | None = None
        self._manifest: Manifest | None = None
        self._splits: dict[int, FileSplit] = {}

    def run(self, watch: Callable[[LoadState], None]) -> None:
        """Load everything that is not loaded yet.

        Args:
            watch: called some five times a second, in this thread.

        Raises:
            InputError: a column, the manifest, or a file.
            pyspark.errors.AnalysisException: SQL, or what Spark's readers find.
            pyspark.errors.PythonException, py4j.protocol.Py4JJavaError: a task failed.
            KeyboardInterrupt: after Ctrl-C, when Spark's tasks have been cancelled.

        Blocks: until Kafka has acknowledged all.
        """
        request = self._plan.request
        if request.job_id is not None:
            settings = request.settings(self._plan.kind, self._plan.engine)
            self._manifest = Manifest.open(request.state, request.job_id, settings)
        self._began_s = time.monotonic()
        try:
            if self._plan.reader is not None:
                self._run_direct(watch)
            else:
                self._run_frames(watch)
        finally:
            if self._manifest is not None:
                self._manifest.close()

    def _run_direct(self, watch: Callable[[LoadState], None]) -> None:
        plan, reader = self._plan, self._plan.reader
        assert reader is not None

        def split(file: InputFile) -> list[FileSplit]:
            return split_file(file, plan.kind, plan.split_bytes(), by_lines=plan.by_lines)

        left = self._left(split)
        options = dataclasses.replace(
            self._sink_options(len(left)),
            headers=reader.mapping.headers,
        )
        engine = self._engine = DirectEngine(self._spark, reader, options)
        self._watched(lambda: engine.run(left), watch)

    def _run_frames(self, watch: Callable[[LoadState], None]) -> None:
        plan = self._plan
        if self._manifest is None:
            self.state.total_bytes = sum(file.size_bytes for file in plan.files)
            paths = spark_paths(plan.files) if plan.files else list(plan.request.paths)
            self._wave = (0, self.state.total_bytes)
            by_folders = reads_by_folders(plan.request.reader_options)
            root = base_path(plan.files, paths) if by_folders else None
            self.state.summaries.append(self._write_frame(plan.files, paths, root, watch))
            _check_files(plan.files)
            self.state.done_bytes = self.state.total_bytes
            return
        left = self._left(lambda file: [FileSplit(file, "file", 0, 1, file.size_bytes)])
        roots = {file.path: file.root for file in plan.files}
        for wave in _waves(left, roots):
            size = sum(split.size_bytes for _, split in wave)
            self._wave = (self.state.done_bytes, size)
            files = [split.file for _, split in wave]
            paths = [literal(file.path) for file in files]
            _check_files(files)
            root = roots[wave[0][1].path]
            root = None if literal(root) in paths else root
            summary = self._write_frame(files, paths, root, watch)
            self.state.summaries.append(summary)
            _check_files(files)
            self.state.done_bytes = sum(self._wave)
            # One report for the whole group: its first file gets it, the others an empty one.
            for number, _ in wave:
                self._manifest.mark(number, summary)
                summary = _summary_of_nothing()

    def _left(self, split: Callable[[InputFile], list[FileSplit]]) -> list[NumberedSplit]:
        """The splits to load, by number; new files are added to the manifest."""
        if self._manifest is None:
            files = self._plan.files
            left = list(enumerate(each for file in files for each in split(file)))
        else:
            by_folders = self._plan.reader is None and reads_by_folders(
                self._plan.request.reader_options
            )
            new = self._manifest.new_files(self._plan.files, by_folders=by_folders)
            self._manifest.add(new, [each for file in new for each in split(file)])
            left = self._manifest.left()
            self.state.earlier = list(self._manifest.done().values())
        self._splits = dict(left)
        self.state.total_tasks = len(left)
        self.state.total_bytes = sum(each.size_bytes for _, each in left)
        return left

    def _sink_options(self, task_count: int) -> SinkOptions:
        request = self._plan.request
        given = {f"kafka.{name}": value for name, value in request.kafka.items()}
        given["topic"] = request.topic
        given["fastprod.max.bytes.per.second"] = self._rate(task_count)
        options = sink_options(given)
        options.check_settings()
        return options

    def _rate(self, task_count: int) -> str:
        """Limit of each task: tasks that run at the same time share the job's limit."""
        limit = self._plan.request.max_bytes_per_second
        if not limit:
            return "0"
        return str(max(1, limit // max(1, min(tasks_at_once(self._spark), task_count))))

    def _write_frame(
        self,
        files: Sequence[InputFile],
        paths: list[str],
        root: str | None,
        watch: Callable[[LoadState], None],
    ) -> dict[str, Any]:
        """Write one DataFrame; return its report.

        Args:
            files: that are read; none for URLs.
            paths: for Spark's reader.
            root: the folder below which Spark makes columns of folders; None: as it does by itself.
            watch: as of `run`.
        """
        request = self._plan.request
        found: list[WriteResult] = []

        def action() -> None:
            records = file_records(self._spark, self._plan, files, paths, root)
            if records is None:
                found.append(WriteResult())
                return
            if request.partitions:
                records = records.repartition(request.partitions)
            kafka = dict(request.kafka)
            limited = request.max_bytes_per_second
            rate = self._rate(records.rdd.getNumPartitions()) if limited else "0"
            self._enter_group(self._writing_group)
            found.append(
                write(
                    records,
                    bootstrap_servers=kafka.pop("bootstrap.servers"),
                    topic=request.topic,
                    kafka=kafka,
                    # The command has checked the cluster and the topic already.
                    options={
                        **record_options(records, request.mapping),
                        "fastprod.validate": "false",
                        "fastprod.max.bytes.per.second": rate,
                    },
                )
            )

        self._watched(action, watch)
        summary = found[0].as_json()
        summary["retried_rows"] = summary.pop("retries")
        return summary

    def _watched(self, action: Callable[[], None], watch: Callable[[LoadState], None]) -> None:
        """Run `action` in another thread, so that this one can take Ctrl-C."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                self._enter_group(self._group)
                action()
            except BaseException as error:
                failures.append(error)

        thread = InheritableThread(target=run, daemon=True)
        with Interrupt() as interrupt:
            thread.start()
            try:
                while thread.is_alive():
                    thread.join(_WATCH_S)
                    interrupt.wait(0)
                    self._update()
                    watch(self.state)
            except BaseException:
                self._cancel(thread)
                raise
            finally:
                self._update()
            if failures:
                # The error of a job that Ctrl-C ended is no failure.
                interrupt.wait(0)
                raise failures[0]

    def _enter_group(self, group: str) -> None:
        description = f"fastprod spark-load {self._plan.request.topic}"
        self._spark.sparkContext.setJobGroup(group, description, interruptOnCancel=True)

    def _cancel(self, thread: threading.Thread) -> None:
        """Cancel the tasks; what they have not finished is not marked, and is loaded again."""
        deadline_s = time.monotonic() + _CANCEL_S
        while thread.is_alive() and time.monotonic() < deadline_s:
            # Repeatedly: a call does not cancel jobs that begin after it.
            for group in (self._group, self._writing_group):
                self._spark.sparkContext.cancelJobGroup(group)
            thread.join(_WATCH_S)

    def _update(self) -> None:
        state = self.state
        state.seconds = time.monotonic() - self._began_s
        if self._engine is not None:
            for number, summary in self._engine.finished():
                state.summaries.append(summary)
                state.done_tasks += 1
                state.done_bytes += self._splits[number].size_bytes
                if self._manifest is not None:
                    self._manifest.mark(number, {**summary, "tasks": []})
            return
        state.total_tasks, state.done_tasks = self._tasks_of_spark()
        before, size = self._wave
        share = state.done_tasks / state.total_tasks if state.total_tasks else 0.0
        state.done_bytes = before + int(size * share)

    def _tasks_of_spark(self) -> tuple[int, int]:
        tracker = self._spark.sparkContext.statusTracker()
        total = done = 0
        jobs = sorted(tracker.getJobIdsForGroup(self._writing_group))
        for job in jobs[-1:]:
            info = tracker.getJobInfo(job)
            for stage in () if info is None else info.stageIds:
                found = tracker.getStageInfo(stage)
                if found is not None:
                    total += found.numTasks
                    done += found.numCompletedTasks
        return total, done


def _check_files(files: Iterable[InputFile]) -> None:
    """Refuse files that have changed since they were found: Spark reads what is there now."""
    for file in files:
        file.check()


def _summary_of_nothing() -> dict[str, Any]:
    """An empty report."""
    summary = WriteResult().as_json()
    summary["retried_rows"] = summary.pop("retries")
    return summary


def _waves(left: list[NumberedSplit], roots: dict[str, str]) -> list[list[NumberedSplit]]:
    """Groups of files of one root, each loaded and marked as a whole."""
    most = max(_WAVE_BYTES, sum(split.size_bytes for _, split in left) // _WAVE_COUNT)
    waves: list[list[NumberedSplit]] = []
    size, root = 0, None
    for number, split in left:
        if not waves or size + split.size_bytes > most or roots[split.path] != root:
            waves.append([])
            size, root = 0, roots[split.path]
        waves[-1].append((number, split))
        size += split.size_bytes
    return waves
