"""Workers of Spark: they serve many tasks, die idle, are killed, and their tasks are repeated."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.broker.sockets import until
from support.spark.sink import SparkSink, reports

PATIENCE_S = 400


@pytest.fixture
def options(kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path) -> dict[str, str]:
    """A topic and a report of this test's own."""
    return {
        "topic": topic(kafka, partitions=2),
        "fastprod__report__path": str(tmp_path / "report"),
    }


def tasks(options: dict[str, str]) -> list[dict[str, Any]]:
    """The tasks of the last commit."""
    found: list[dict[str, Any]] = reports(Path(options["fastprod__report__path"]))[-1]["tasks"]
    return found


def test_many_tasks_of_a_worker_use_one_producer(ours: SparkSink, options: dict[str, str]) -> None:
    used = set()
    for _ in range(2):
        assert ours.write("select 'v' value from range(0, 200, 1, 50)", **options).error is None
        used |= {(each["worker_pid"], each["client_id"]) for each in tasks(options)}
        assert len(tasks(options)) == 50
    workers = {pid for pid, _ in used}
    assert len(used) == len(workers) <= 2
    assert len(ours.records(options["topic"])) == 400


def test_the_death_of_an_idle_worker_is_no_harm(ours: SparkSink, options: dict[str, str]) -> None:
    rows = "select 'v' value from range(0, 10, 1, 2)"
    assert ours.write(rows, **options).error is None
    dead = {each["worker_pid"] for each in tasks(options)}
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
    # Java takes a process that Spark's daemon has not waited for yet for a living one, and a task
    # may get each of the two.
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in dead))
    assert ours.write(rows, **options).error is None
    assert not dead & {each["worker_pid"] for each in tasks(options)}
    assert len(ours.records(options["topic"])) == 20


def test_a_failed_task_is_repeated_and_no_row_is_lost(
    ours: SparkSink, spark: SparkSession, options: dict[str, str]
) -> None:
    def fail_once(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 1 and context.attemptNumber() == 0 and context.partitionId() == 1:
                raise RuntimeError("the first attempt fails after its first batch")
            yield batch

    rows = spark.range(0, 40_000, 1, 2).selectExpr("string(id) value")
    assert ours.write(rows.mapInArrow(fail_once, "value string"), **options).error is None
    values = {int(record.value or b"-1") for record in ours.records(options["topic"])}
    assert values == set(range(40_000))
    assert {(each["spark_partition"], each["attempt"]) for each in tasks(options)} == {
        (0, 0),
        (1, 1),
    }
    assert sum(each["rows"] for each in tasks(options)) == 40_000


def test_a_cancelled_write_ends_and_the_next_one_works(
    ours: SparkSink, spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    started = tmp_path / "started"

    def tell(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield batch
            started.touch()

    # At one byte a second this would take hours.
    rows = spark.range(0, 100_000, 1, 1).selectExpr("string(id) value")
    slow = {**options, "fastprod__max__bytes__per__second": "1"}

    # The write has the main thread: Spark finds Python data sources where a session is active.
    def cancel() -> None:
        waited = threading.Event()
        for _ in range(PATIENCE_S * 20):
            if started.exists():
                break
            waited.wait(0.05)
        spark.sparkContext.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    outcome = ours.write(rows.mapInArrow(tell, "value string"), **slow)
    canceller.join(PATIENCE_S)
    assert outcome.error is not None
    assert "cancel" in outcome.error.lower()
    assert ours.write("select 'after' value", **options).error is None
    assert b"after" in {record.value for record in ours.records(options["topic"])}


def test_a_task_without_rows_makes_no_producer(ours: SparkSink, options: dict[str, str]) -> None:
    rows = "select 'v' value from range(0, 4, 1, 4) where id = 0"
    assert ours.write(rows, **options).error is None
    assert sum(each["rows"] for each in tasks(options)) == 1
    assert [bool(each["client_id"]) for each in tasks(options)].count(True) == 1
