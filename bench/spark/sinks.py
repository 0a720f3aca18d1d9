"""The sinks that are compared: each writes the rows of a DataFrame that the peer makes for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow
from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from bench.spark.job import SparkJob

_QUEUE_RECORDS = 1_000_000
_POLL_ROWS = 10_000
_FLUSH_S = 120.0


def write_with_jvm(frame: DataFrame, job: SparkJob) -> None:
    """Spark's own sink, in Java."""
    _write(frame, "kafka", job)


def write_with_fastprod(frame: DataFrame, job: SparkJob) -> None:
    """Ours."""
    _write(frame, "fastprod", job)


def write_json_with_fastprod(frame: DataFrame, job: SparkJob) -> None:
    """Ours, which makes JSON of the columns in its workers."""
    _write(frame, "fastprod", job, {"value.format": "json"})


def write_json_of_the_jvm(frame: DataFrame, job: SparkJob) -> None:
    """Ours, after the JVM has made JSON of the columns."""
    _write(frame.select(F.to_json(F.struct("*")).alias("value")), "fastprod", job)


def _write(
    frame: DataFrame, sink: str, job: SparkJob, options: Mapping[str, str] | None = None
) -> None:
    writer = frame.write.format(sink).mode("append").option("topic", job.topic)
    writer = writer.option("kafka.bootstrap.servers", job.bootstrap_servers)
    writer = writer.options(**(options or {}))
    for name, value in job.settings.items():
        writer = writer.option(f"kafka.{name}", value)
    writer.save()


def write_in_foreach_partition(frame: DataFrame, job: SparkJob) -> None:
    """What people write by hand: confluent-kafka, a call a row."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": job.bootstrap_servers,
        "acks": "all",
        "queue.buffering.max.messages": _QUEUE_RECORDS,
        **job.settings,
    }
    topic = job.topic
    frame.foreachPartition(lambda rows: _produce_rows(rows, topic, settings))


def _produce_rows(rows: Iterator[Row], topic: str, settings: Mapping[str, str | int]) -> None:
    producer = Producer(dict(settings))
    for number, row in enumerate(rows):
        producer.produce(topic, bytes(row.value), bytes(row.key))
        if number % _POLL_ROWS == 0:
            producer.poll(0)
    left = producer.flush(_FLUSH_S)
    if left:
        raise RuntimeError(f"{left:,} records are not delivered after {_FLUSH_S} s")


def count(frame: DataFrame, job: SparkJob) -> None:
    """Rows arrive in a Python worker as Arrow, and that is all: no sink of this kind is quicker."""
    frame.sparkSession.dataSource.register(CountingSource)
    frame.write.format(CountingSource.name()).mode("append").option(
        "rows", str(job.row_count)
    ).save()


@dataclass
class Counted(WriterCommitMessage):
    """Rows of a task."""

    row_count: int


class CountingSource(DataSource):
    """The sink of `count`."""

    @classmethod
    def name(cls) -> str:
        return "bench_count"

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:
        return CountingWriter()


class CountingWriter(DataSourceArrowWriter):
    """Counts rows and bytes."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Counted:
        return Counted(sum(batch.num_rows for batch in iterator))


SINKS: dict[str, Callable[[DataFrame, SparkJob], None]] = {
    "jvm": write_with_jvm,
    "fastprod": write_with_fastprod,
    "foreach": write_in_foreach_partition,
    "count": count,
    "count_columns": count,
    "json": write_json_with_fastprod,
    "to_json": write_json_of_the_jvm,
}
