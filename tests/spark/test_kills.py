"""kill -9 of workers and brokers amid writes of one session: no row is lost, no write hangs.

Rows are written at least once: every row that is there twice belongs to a task that was repeated.
Drivers and executors are killed in tests/spark_jobs/test_job_kills.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import kafka_admin
from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.broker.own_broker import OwnBroker
from support.processes import process_tree
from support.records.readers import end_offsets
from support.spark.job import Copies
from support.spark.sink import SparkSink, reports

SEED = 20_261_120
ROWS = 30_000
PATIENCE_S = 180.0
DOWN_S = 0.5
# The rows of `support.spark.driver`, in two tasks.
NUMBERED = (
    f"select concat_ws(' ', spark_partition_id(), id, '{'x' * 90}') value "
    f"from range(0, {ROWS}, 1, 2)"
)
SLOW = {"fastprod__max__bytes__per__second": "400000"}


@contextlib.contextmanager
def meanwhile(
    sink: SparkSink, topic: str, row_count: int, act: Callable[[], None]
) -> Iterator[None]:
    """In another thread, act as soon as so many records are in the topic."""
    over, failures = threading.Event(), []

    def run() -> None:
        try:
            while sum(end_offsets(sink.bootstrap_servers, topic).values()) < row_count:
                if over.wait(0.05):
                    raise AssertionError("the write ended before the kill")
            act()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="killer")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)
    assert failures == []


def test_workers_killed_amid_a_write_cost_no_row(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    name, chosen = topic(kafka, partitions=2), random.Random(SEED)
    path = tmp_path / "report"

    def kill() -> None:
        # All: which of them has a task, and which idles, cannot be seen from outside.
        for each in process_tree.spark_workers(os.getpid()):
            each.kill()

    options = {"topic": name, "fastprod__report__path": str(path)}
    with meanwhile(ours, name, chosen.randrange(1_000, ROWS // 2), kill):
        outcome = ours.write(NUMBERED, **options, **SLOW)
    assert outcome.error is None
    copies = Copies.of(ours.records(name))
    assert not copies.missing(ROWS)
    repeated = {each["spark_partition"] for each in reports(path)[-1]["tasks"] if each["attempt"]}
    assert repeated
    assert {task for row in copies.repeated() for task in copies.tasks[row]} <= repeated
    assert max(copies.counts.values()) <= 2


def test_a_broker_killed_amid_a_write_costs_no_row_and_doubles_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    chosen = random.Random(SEED + 1)
    with OwnBroker(tmp_path) as broker:
        kafka_admin.create_topic(broker.bootstrap_servers, "t", 2, 1, {})
        sink = SparkSink("fastprod", spark, broker.bootstrap_servers)

        def kill() -> None:
            broker.kill()
            time.sleep(DOWN_S)
            broker.restart()

        with meanwhile(sink, "t", chosen.randrange(1_000, ROWS // 2), kill):
            outcome = sink.write(NUMBERED, topic="t", **SLOW)

        assert outcome.error is None
        copies = Copies.of(sink.records("t"))
    assert not copies.missing(ROWS)
    assert not copies.repeated()
