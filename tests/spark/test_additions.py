"""What our sink has beyond Spark's own: timestamps, header columns, reports, clear refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import SparkSession

from conftest import TopicFactory
from fastprod.spark.rows.bad_row import BadRow
from fastprod.spark.rows.row_plan import RowPlan
from fastprod.spark.sink.arrow_writer import check_batch
from kafka_cluster import KafkaCluster
from support.spark.sink import SparkSink, reports


def test_a_timestamp_column_is_the_records_time_and_a_null_is_now(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    rows = """select 'then' value, timestamp_micros(1700000000123999) timestamp
              union all select 'now', null"""
    assert ours.write(rows, topic=name).error is None
    times = {record.value: record.timestamp_ms for record in ours.records(name)}
    assert times[b"then"] == 1_700_000_000_123
    assert times[b"now"] > 1_700_000_000_123


def test_headers_come_from_the_row_then_from_options_then_from_columns(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    rows = """select 'v' value, 'x' Trace, cast(null as binary) span,
              array(named_struct('key', 'row', 'value', binary('1'))) headers"""
    options = {
        "topic": name,
        "header__origin": "batch",
        "header__column__trace": "Trace",
        "header__column__span": "span",
    }
    assert ours.write(rows, **options).error is None
    assert [record.headers for record in ours.records(name)] == [
        (("row", b"1"), ("origin", b"batch"), ("trace", b"x"), ("span", None))
    ]


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"kafka.lingr.ms": "5"}, ["lingr.ms is not a setting; did you mean linger.ms?"]),
        ({"fastprod.validat": "x"}, ["did you mean fastprod.validate?"]),
        ({"guarantee": "exactly_once"}, ["guarantee = 'exactly_once': must be one of at_least"]),
        (
            {"kafka.sasl.jaas.config": "org.x.Y required password='hush';"},
            ["sasl.jaas.config = [hidden]: its login module is none of", "PlainLoginModule"],
        ),
        ({"header.column.a": "nosuch"}, ["Required attribute 'nosuch' not found"]),
    ],
)
def test_what_is_not_understood_is_refused_before_any_task(
    ours: SparkSink, options: dict[str, str], texts: list[str]
) -> None:
    outcome = ours.write("select 'v' value where false", topic="t", **options)
    assert outcome.error is not None
    assert all(text in outcome.error for text in texts), outcome.error
    assert "hush" not in outcome.error


def test_a_missing_bootstrap_address_is_named_before_any_task(ours: SparkSink) -> None:
    options = {"topic": "t", "kafka__bootstrap__servers": None}
    outcome = ours.write("select 'v' value where false", **options)
    assert outcome.error is not None
    assert "Kafka option bootstrap.servers is not set." in outcome.error


def test_two_columns_of_one_name_are_refused(ours: SparkSink) -> None:
    outcome = ours.write("select 'v' value, 'w' value", topic="t")
    assert outcome.error is not None
    assert re.search("2 columns are named 'value'|COLUMN_ALREADY_EXISTS|AMBIGUOUS", outcome.error)


@pytest.mark.parametrize(
    ("value", "kind"), [("interval '1' day", "interval day"), ("parse_json('1')", "variant")]
)
def test_types_that_spark_refuses_for_its_own_sink_are_refused_with_the_usual_words(
    ours: SparkSink, value: str, kind: str
) -> None:
    outcome = ours.write(f"select {value} value", topic="t")
    assert outcome.error is not None
    assert f"value attribute unsupported type {kind}. value must be a(n) string" in outcome.error


def test_a_cluster_that_does_not_answer_is_told_by_the_driver(ours: SparkSink) -> None:
    options = {"kafka__bootstrap__servers": "127.0.0.1:1", "kafka__max__block__ms": "3000"}
    outcome = ours.write("select 'v' value", topic="t", **options)
    assert outcome.error is not None
    assert "PYTHON_DATA_SOURCE_ERROR" in outcome.error
    assert "127.0.0.1:1" in outcome.error
    assert "Connection refused" in outcome.error
    assert "fastprod.validate" in outcome.error


def test_a_failing_row_is_named_with_its_place_and_its_sizes(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    rows = """select string(id) key, repeat('v', if(id = 20011, 2000000, 1)) value
              from range(0, 30000, 1, 1)"""
    outcome = ours.write(rows, topic=name)
    assert outcome.error is not None
    assert "row 20,011 (from 0) of Spark partition 0, attempt 1" in outcome.error
    assert f"for topic '{name}'" in outcome.error
    assert "key of 5 bytes, value of 2,000,000 bytes" in outcome.error


def test_a_report_tells_rows_bytes_and_offsets_of_each_commit(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    name, path = topic(kafka), tmp_path / "report"
    options = {"topic": name, "fastprod__report__path": str(path)}
    for _ in range(2):
        rows = "select 'key' key, 'value' value from range(0, 100, 1, 2)"
        assert ours.write(rows, **options).error is None
    first, second = reports(path)
    assert (first["batch_id"], first["rows"], first["bytes"]) == (None, 100, 800)
    assert first["offsets"] == {name: {"0": [0, 99]}}
    assert second["offsets"] == {name: {"0": [100, 199]}}
    assert sorted(each["spark_partition"] for each in first["tasks"]) == [0, 1]
    assert sum(each["rows"] for each in first["tasks"]) == 100
    assert first["sent_bytes"] > 0


def test_a_report_that_cannot_be_written_is_refused_before_the_first_row(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(kafka)
    options = {"topic": name, "fastprod__report__path": str(tmp_path / "nosuch" / "report")}
    error = ours.write("select 'v' value", **options).error
    assert error is not None
    assert "fastprod.report.path" in error
    assert ours.records(name) == []


def test_large_arrow_types_are_written_too(
    ours: SparkSink, spark: SparkSession, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(setting, "true")
    try:
        rows = f"""select binary('k') key, 'v' value, '{name}' topic,
                   array(named_struct('key', 'a', 'value', binary('1'))) headers"""
        assert ours.write(rows).error is None
    finally:
        spark.conf.unset(setting)
    assert [each[3:] for each in ours.records(name)] == [(b"k", b"v", (("a", b"1"),))]


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_a_header_whose_key_is_no_text_is_told_by_its_row(kind: pyarrow.DataType) -> None:
    """Spark makes such a string by cast(X'FE' as string); consumers would fail at the record."""
    keys = pyarrow.array([b"x", b"a", b"\xfe", b"b"], pyarrow.binary()).cast(kind, safe=False)
    entries = pyarrow.StructArray.from_arrays(
        [keys, pyarrow.array([b"1"] * 4)], names=["key", "value"]
    )
    headers = pyarrow.ListArray.from_arrays(
        pyarrow.array([0, 1, 2, 2, 4], pyarrow.int32()), entries
    )
    batch = pyarrow.record_batch({"value": ["v"] * 4, "headers": headers})
    plan = RowPlan(value=0, headers=1)
    check_batch(batch.slice(0, 3), plan)
    with pytest.raises(BadRow, match="a header whose key is no UTF-8 text") as caught:
        check_batch(batch.slice(1), plan)
    assert caught.value.index == 2
