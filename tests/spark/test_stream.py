"""Streams: the same queries into Spark's own Kafka sink and into ours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from conftest import TopicFactory
from fastprod.errors import ConfigError
from fastprod.spark import progress, write_stream
from fastprod.spark.sink import api
from fastprod.spark.sink.write_result import WriteResult
from kafka_cluster import KafkaCluster
from support.spark.sink import SparkSink, reports

Lines = Callable[[str], None]
PATIENCE_S = 400
FIRST_FILE_S = int(time.time()) - 100


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Adds a file of lines to the folder that a stream reads."""
    folder = tmp_path / "input"
    folder.mkdir()

    def add(text: str) -> None:
        number = len(list(folder.iterdir()))
        hidden = folder.parent / f"{number}.txt"
        hidden.write_text(text)
        # Files are taken in the order of their times, which are of whole milliseconds.
        os.utime(hidden, (FIRST_FILE_S + number, FIRST_FILE_S + number))
        hidden.rename(folder / hidden.name)

    return add


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, lines: Lines) -> DataFrame:
    """What `lines` adds, one file a micro-batch."""
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    return reader.text(str(tmp_path / "input"))


def test_a_stream_goes_on_where_it_ended(
    sink: SparkSink,
    kafka: KafkaCluster,
    topic: TopicFactory,
    tmp_path: Path,
    stream: DataFrame,
    lines: Lines,
) -> None:
    name = topic(kafka)
    lines("a\nb\n")
    lines("c\n")
    assert sink.stream(stream, tmp_path / "checkpoint", topic=name).error is None
    assert sorted(record.value or b"" for record in sink.records(name)) == [b"a", b"b", b"c"]
    lines("d\n")
    assert sink.stream(stream, tmp_path / "checkpoint", topic=name).error is None
    assert sorted(record.value or b"" for record in sink.records(name)) == [b"a", b"b", b"c", b"d"]


def test_output_mode_complete_writes_the_whole_result_each_time(
    sink: SparkSink,
    kafka: KafkaCluster,
    topic: TopicFactory,
    tmp_path: Path,
    stream: DataFrame,
    lines: Lines,
) -> None:
    name = topic(kafka)
    lines("a\na\n")
    lines("a\n")
    counts = stream.groupBy("value").count().selectExpr("concat(value, count) value")
    assert sink.stream(counts, tmp_path / "checkpoint", "complete", topic=name).error is None
    assert [record.value for record in sink.records(name)] == [b"a2", b"a3"]


def test_a_schema_is_refused_when_the_query_starts(
    sink: SparkSink, tmp_path: Path, stream: DataFrame, lines: Lines
) -> None:
    lines("a\n")
    outcome = sink.stream(stream.selectExpr("1 value"), tmp_path / "checkpoint", topic="t")
    assert outcome.error is not None
    assert "value attribute unsupported type int. value must be a(n) string" in outcome.error


def test_each_micro_batch_is_reported_with_its_number(
    ours: SparkSink,
    kafka: KafkaCluster,
    topic: TopicFactory,
    tmp_path: Path,
    stream: DataFrame,
    lines: Lines,
) -> None:
    name, path = topic(kafka), tmp_path / "report"
    lines("a\nb\n")
    lines("c\n")
    options = {"topic": name, "fastprod__report__path": str(path)}
    assert ours.stream(stream, tmp_path / "checkpoint", **options).error is None
    assert [(each["batch_id"], each["rows"]) for each in reports(path)] == [(0, 2), (1, 1)]
    assert [each["offsets"] for each in reports(path)] == [
        {name: {"0": [0, 1]}},
        {name: {"0": [2, 2]}},
    ]


def test_output_mode_update_is_refused_by_spark_for_every_python_sink(
    ours: SparkSink, tmp_path: Path, stream: DataFrame, lines: Lines
) -> None:
    lines("a\n")
    counts = stream.groupBy("value").count().selectExpr("concat(value, count) value")
    outcome = ours.stream(counts, tmp_path / "checkpoint", "update", topic="t")
    assert outcome.error is not None
    assert "does not support Update mode" in outcome.error


def test_with_a_continuous_trigger_no_row_is_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark gives no sink in Python a row then; what it does not commit, it reads again."""
    rows = spark.readStream.format("rate").load().selectExpr("string(value) value")
    with pytest.raises(ConfigError, match="a continuous trigger is refused"):
        write_stream(
            rows,
            topic="t",
            bootstrap_servers="127.0.0.1:9",
            checkpoint=str(tmp_path),
            trigger={"continuous": "1 second"},
        )
    writer = rows.writeStream.format("fastprod").trigger(continuous="100 milliseconds")
    writer = writer.option("kafka.bootstrap.servers", "127.0.0.1:9").option("topic", "t")
    writer = writer.option("fastprod.validate", "false")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while len(list((tmp_path / "offsets").glob("[0-9]*"))) < 10:
            assert time.monotonic() < deadline_s, "no interval ended"
            time.sleep(0.05)
    finally:
        query.stop()
    assert list((tmp_path / "commits").glob("[0-9]*")) == []


def test_in_output_mode_update_the_driver_looks_for_the_cluster_until_a_batch_is_written(
    spark: SparkSession,
    kafka: KafkaCluster,
    topic: TopicFactory,
    tmp_path: Path,
    stream: DataFrame,
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    write = api.write

    def written(df: DataFrame, **given: Any) -> WriteResult:
        found.append(given["options"])
        return write(df, **given)

    monkeypatch.setattr(api, "write", written)
    for text in ("a\n", "b\n", "c\n"):
        lines(text)
    query = write_stream(
        stream.groupBy("value").count().selectExpr("value"),
        topic=topic(kafka),
        bootstrap_servers=kafka.bootstrap_servers,
        checkpoint=tmp_path / "checkpoint",
        output_mode="update",
        trigger={"availableNow": True},
        options={"Fastprod.Validate": "true"},
    )
    assert query.awaitTermination(PATIENCE_S)
    after = {"fastprod.validate": "false", "fastprod.under.way": "true"}
    assert found == [{"Fastprod.Validate": "true"}, after, after]
    assert progress(query).total.rows == 3
