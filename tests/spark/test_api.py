"""fastprod.spark: write, write_stream and progress."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import fastprod.spark
from fastprod.broker.broker import Broker
from fastprod.errors import ConfigError
from fastprod.security.secret import Secret
from fastprod.spark.sink import api
from fastprod.spark.sink.commit_total import CommitTotal
from fastprod.spark.sink.options import sink_options
from support.records.readers import read_with_confluent

PATIENCE_S = 400
FIRST_FILE_S = int(time.time()) - 100


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One for all: workers keep their producers, and those of a broker that is gone look for it."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    """A new topic of two partitions."""
    name = f"t-{uuid.uuid4().hex}"
    broker.create_topic(name, 2)
    return name


def values(broker: Broker, topic: str) -> list[bytes | None]:
    found = read_with_confluent(broker.bootstrap_servers, topic)
    return [record.value for partition in sorted(found) for record in found[partition]]


def test_a_write_returns_rows_bytes_offsets_and_seconds(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    rows = spark.sql("select 'key' key, 'value' value, int(id % 2) partition from range(10)")
    result = fastprod.spark.write(
        rows,
        bootstrap_servers=broker.bootstrap_servers,
        topic=topic,
        kafka={"compression_type": "gzip", "linger.ms": 5, "enable.idempotence": True},
        options={"header.origin": "test"},
    )
    assert (result.rows, result.bytes, result.retries, result.batches) == (10, 80, 0, 1)
    assert result.offsets == {topic: {0: (0, 4), 1: (0, 4)}}
    assert result.seconds > 0
    assert len(values(broker, topic)) == 10


def test_settings_become_text_that_means_the_same_or_are_refused() -> None:
    def settings_of(**kafka: object) -> dict[str, str]:
        given = api._options(["a:1", "b:2"], "t", "at_least_once", kafka, None, "")
        return dict(sink_options(given).settings)

    found = settings_of(
        acks=1,
        enable_idempotence=False,
        ssl_enabled_protocols=("TLSv1.2", "TLSv1.3"),
        sasl_username=None,
        sasl_password=Secret("hunter2"),
    )
    assert found["bootstrap.servers"] == "a:1,b:2"
    assert (found["acks"], found["enable.idempotence"]) == ("1", "false")
    assert found["ssl.enabled.protocols"] == "TLSv1.2,TLSv1.3"
    assert "sasl.username" not in found
    assert found["sasl.password"] == "hunter2"
    for wrong in (b"hunter2", ["hunter2", 1], {"a": "hunter2"}, object()):
        with pytest.raises(ConfigError, match="sasl_password must be a str, a number") as raised:
            settings_of(sasl_password=wrong)
        assert "hunter2" not in str(raised.value)


def test_options_become_text_and_none_is_left_out() -> None:
    options = {"header.n": 5, "header.none": None, "fastprod.validate": False, "Topic": "t"}
    given = api._options("a:1", None, "at_least_once", None, options, "")  # type: ignore[arg-type]
    found = sink_options(given)
    assert (found.headers, found.validates, found.topic) == ((("n", b"5"),), False, "t")


@pytest.mark.parametrize(
    ("kafka", "options", "told"),
    [
        ({"linger.ms": 1, "linger_ms": 2}, {}, "kafka.linger.ms is given twice"),
        ({"linger.ms": 1}, {"kafka.linger_ms": "2"}, "kafka.linger.ms is given twice"),
        ({"bootstrap_servers": "b:1"}, {}, "kafka.bootstrap.servers is given twice"),
        ({}, {"topic": "other"}, "topic is given twice"),
        ({}, {"header.X": "1", "header.x": "2"}, "header.x is given twice"),
    ],
)
def test_what_is_given_twice_is_refused_unless_it_is_the_same(
    kafka: dict[str, object], options: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        api._options("a:1", "t", "at_least_once", kafka, options, "")
    same = {"bootstrap.servers": "a:1", "bootstrap_servers": ["a:1"]}
    assert api._options("a:1", "t", "at_least_once", same, {"topic": "t"}, "")


def test_a_write_whose_figures_are_lost_says_so(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unwritable(CommitTotal):
        def __init__(self) -> None:
            super().__init__()
            self._part = self.path.with_suffix(".part")
            self._part.mkdir()

        def close(self) -> None:
            self._part.rmdir()
            super().close()

    monkeypatch.setattr(api, "CommitTotal", Unwritable)
    rows = spark.sql("select 'value' value from range(10)")
    result = fastprod.spark.write(rows, bootstrap_servers=broker.bootstrap_servers, topic=topic)
    assert result.rows == 0
    assert "the rows are written, but how many is not known" in caplog.text
    assert len(values(broker, topic)) == 10


def test_any_thread_may_write(spark: SparkSession, broker: Broker, topic: str) -> None:
    results = []

    def write() -> None:
        rows = spark.sql("select 'v' value")
        servers = broker.bootstrap_servers
        results.append(fastprod.spark.write(rows, bootstrap_servers=servers, topic=topic))

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(PATIENCE_S)
    assert [result.rows for result in results] == [1]


def test_what_is_wrong_is_refused_before_any_task(spark: SparkSession) -> None:
    rows = spark.sql("select 'v' value")
    with pytest.raises(ConfigError, match="must be one of at_least_once"):
        fastprod.spark.write(rows, bootstrap_servers="b:1", topic="t", guarantee="exactly_once")
    with pytest.raises(ConfigError, match=r"fastprod\.total\.path"):
        fastprod.spark.write(
            rows, bootstrap_servers="b:1", options={"fastprod.Total.path": "total"}
        )
    codec = "spark.sql.execution.arrow.compression.codec"
    spark.conf.set(codec, "lz4")
    try:
        with pytest.raises(ConfigError, match="set it to none"):
            fastprod.spark.write(rows, bootstrap_servers="b:1", topic="t")
    finally:
        spark.conf.unset(codec)


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_a_stream_is_written_in_every_output_mode_and_followed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, mode: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, text in enumerate(["a\na\n", "b\n"]):
        path = folder / f"{number}.txt"
        path.write_text(text)
        # Files are taken in the order of their times.
        os.utime(path, (FIRST_FILE_S + number, FIRST_FILE_S + number))
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    if mode != "append":
        lines = lines.groupBy("value").count().selectExpr("concat(value, count) value")
    query = fastprod.spark.write_stream(
        lines,
        bootstrap_servers=broker.bootstrap_servers,
        topic=topic,
        checkpoint=str(tmp_path / "checkpoint"),
        output_mode=mode,
        trigger={"availableNow": True},
    )
    assert query.awaitTermination(PATIENCE_S)
    told = fastprod.spark.progress(query)
    wanted = {"append": ["a", "a", "b"], "update": ["a2", "b1"], "complete": ["a2", "a2", "b1"]}
    assert sorted((value or b"").decode() for value in values(broker, topic)) == wanted[mode]
    assert (told.total.rows, told.total.batches, told.batch_id) == (len(wanted[mode]), 2, 1)
    assert not told.is_active
    spans = told.total.offsets[topic].values()
    assert sum(last - first + 1 for first, last in spans) == told.total.rows
    again = fastprod.spark.progress(query)
    assert (again.total, again.rows_per_second) == (told.total, 0.0)


def test_a_query_that_is_over_and_that_nobody_holds_is_forgotten(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(api, "_queries", {})
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")

    def start(name: str, trigger: dict[str, object] | None) -> StreamingQuery:
        return fastprod.spark.write_stream(
            spark.readStream.text(str(folder)),
            bootstrap_servers=broker.bootstrap_servers,
            topic=topic,
            checkpoint=tmp_path / name,
            trigger=trigger,
        )

    at_once: dict[str, object] = {"availableNow": True}
    running = start("running", None)
    run_id = running.runId
    del running
    held = start("held", at_once)
    assert held.awaitTermination(PATIENCE_S)
    for number in range(3):
        query = start(f"over-{number}", at_once)
        assert query.awaitTermination(PATIENCE_S)
        del query
    # One that runs, one that is held, and the last, which the next one would remove.
    assert len(api._queries) == len(list(temporary.iterdir())) == 3
    assert fastprod.spark.progress(held).total.rows == 1
    (found,) = [each for each in spark.streams.active if each.runId == run_id]
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not fastprod.spark.progress(found).total.rows:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
    finally:
        found.stop()
    assert not fastprod.spark.progress(found).is_active


def test_a_query_that_others_started_is_not_known(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        with pytest.raises(ConfigError, match="was not started by"):
            fastprod.spark.progress(query)
    finally:
        query.stop()


def test_an_output_mode_that_is_none_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match="must be one of append, update, complete"):
        fastprod.spark.write_stream(
            stream, bootstrap_servers="b:1", checkpoint="/nosuch", output_mode="upsert"
        )
