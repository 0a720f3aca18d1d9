"""The contract of Spark's Kafka sink, held against that sink itself and against ours.

Each test runs against ``format("kafka")`` and ``format("fastprod")``: the same records, and where a
write is refused the same words.  What differs is that ours needs ``mode("append")``, takes no
output mode Update, that its errors arrive in Spark's for Python data sources, and that its driver
asks the cluster before any task, so for a DataFrame without rows too.
"""

from __future__ import annotations

import re

import pytest

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.oracle import murmur2
from support.records.readers import ReadRecord
from support.spark.sink import SparkSink

NO_TOPIC = (
    "topic option required when no 'topic' attribute is present. "
    "Use the topic option for setting a topic."
)
NO_VALUE = "Required attribute 'value' not found"
HEADERS = "array<struct<key:string,value:binary>>"


def bare(records: list[ReadRecord]) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values."""
    return [(record.key, record.value) for record in records]


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ("'k' key, 'v' value", (b"k", b"v")),
        ("binary('k') key, binary('v') value", (b"k", b"v")),
        ("'v' value", (None, b"v")),
        ("cast(null as string) key, cast(null as binary) value", (None, None)),
        ("'' key, '' value", (b"", b"")),
        ("'\\u00e9' value, 'ignored' other, 'k' key", (b"k", "\u00e9".encode())),
        ("1 KEY, 1 Value, 'v' value, 2 TOPIC", (None, b"v")),
    ],
)
def test_columns_are_found_by_their_exact_names_whatever_their_order(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory, columns: str, wanted: object
) -> None:
    name = topic(kafka)
    assert sink.write(f"select {columns}", topic=name).error is None
    assert bare(sink.records(name)) == [wanted]


@pytest.mark.parametrize(
    ("columns", "topic_option", "text"),
    [
        ("1 key, 1 value", None, NO_TOPIC),
        ("1 topic, 1 key", None, "topic attribute unsupported type int. topic must be a(n) string"),
        ("binary('t') topic", None, "topic attribute unsupported type binary."),
        ("1 key, 1 value", "t", "key attribute unsupported type int. key must be a(n) string or "),
        ("1 headers, 'k' key", "t", NO_VALUE),
        ("'v' Value", "t", NO_VALUE),
        (
            "1 headers, 1 value",
            "t",
            "value attribute unsupported type int. value must be a(n) string or binary",
        ),
        (
            "1 headers, 'v' value, 'x' partition",
            "t",
            f"headers attribute unsupported type int. headers must be a(n) {HEADERS}",
        ),
        (
            "array(named_struct('value', binary('a'), 'key', 'b')) headers, 'v' value",
            "t",
            "headers attribute unsupported type array<struct<value:binary,key:string>>. headers ",
        ),
        (
            "array(named_struct('key', 'a', 'value', 'b')) headers, 'v' value",
            "t",
            "headers attribute unsupported type array<struct<key:string,value:string>>. headers ",
        ),
        (
            "1L partition, 'v' value",
            "t",
            "partition attribute unsupported type bigint. partition must be a(n) int",
        ),
        (
            "collate('v', 'UTF8_LCASE') value",
            "t",
            "value attribute unsupported type string collate UTF8_LCASE. value must be a(n) string",
        ),
        (
            "struct(1 a, 'x' b) value",
            "t",
            "value attribute unsupported type struct<a:int,b:string>.",
        ),
        ("map('a', 1) value", "t", "value attribute unsupported type map<string,int>."),
        ("1.5BD value", "t", "value attribute unsupported type decimal(2,1)."),
    ],
)
def test_schemas_are_refused_in_the_same_order_with_the_same_words(
    sink: SparkSink, columns: str, topic_option: str | None, text: str
) -> None:
    outcome = sink.write(f"select {columns}", topic=topic_option)
    assert outcome.error is not None
    assert text in outcome.error


def test_a_schema_is_refused_without_rows_too(sink: SparkSink) -> None:
    outcome = sink.write("select 1 value where false", topic="t")
    assert outcome.error is not None
    assert "value attribute unsupported type int." in outcome.error


def test_a_dataframe_without_rows_writes_nothing(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    assert sink.write("select 'v' value where false", topic=name).error is None
    assert sink.records(name) == []


def test_without_rows_ours_alone_asks_whether_the_cluster_is_there(sink: SparkSink) -> None:
    options = {"kafka__bootstrap__servers": "127.0.0.1:1", "kafka__max__block__ms": "3000"}
    outcome = sink.write("select 'v' value where false", topic="t", **options)
    if not sink.is_ours:
        assert outcome.error is None
        return
    assert outcome.error is not None
    assert "PYTHON_DATA_SOURCE_ERROR" in outcome.error
    assert "127.0.0.1:1" in outcome.error
    options["fastprod__validate"] = "false"
    assert sink.write("select 'v' value where false", topic="t", **options).error is None


def test_the_topic_option_is_trimmed_and_wins_over_a_column_of_any_kind(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    for column in ("'other'", "cast(null as string)", "1"):
        assert sink.write(f"select {column} topic, 'v' value", topic=f"  {name} ").error is None
    assert bare(sink.records(name)) == [(None, b"v")] * 3


def test_rows_go_to_the_topics_that_they_name_in_order(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    names = [topic(kafka), topic(kafka), topic(kafka)]
    rows = f"""select element_at(array({", ".join(f"'{name}'" for name in names)}),
               int(id % 3) + 1) topic, string(id) value from range(0, 3000, 1, 1)"""
    assert sink.write(rows).error is None
    for rest, name in enumerate(names):
        values = [str(each).encode() for each in range(3000) if each % 3 == rest]
        assert [record.value for record in sink.records(name)] == values


def test_a_partition_is_taken_and_a_null_leaves_it_to_the_key(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka, partitions=3)
    rows = """select string(id) key, string(id) value,
              if(id % 2 = 0, 2, cast(null as int)) partition from range(60)"""
    assert sink.write(rows, topic=name).error is None
    found = {record.value: record.partition for record in sink.records(name)}
    assert found == {
        key: 2 if int(key) % 2 == 0 else (murmur2.signed(key) & 0x7FFFFFFF) % 3
        for key in (str(each).encode() for each in range(60))
    }


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ("array(named_struct('key', 'a', 'value', binary('1')))", (("a", b"1"),)),
        (
            "array(named_struct('key', 'a', 'value', binary('1')), "
            "named_struct('key', 'a', 'value', cast(null as binary)))",
            (("a", b"1"), ("a", None)),
        ),
        ("array(named_struct('KEY', 'a', 'Value', binary('')))", (("a", b""),)),
        (f"cast(null as {HEADERS})", ()),
        (f"cast(array() as {HEADERS})", ()),
    ],
)
def test_headers_are_kept_in_their_order(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory, headers: str, wanted: object
) -> None:
    name = topic(kafka)
    assert sink.write(f"select {headers} headers, 'v' value", topic=name).error is None
    assert [record.headers for record in sink.records(name)] == [wanted]


@pytest.mark.parametrize(
    "headers",
    [
        "array(named_struct('key', cast(null as string), 'value', binary('1')))",
        "array(named_struct('key', 'a', 'value', binary('1')), null)",
    ],
)
def test_a_header_without_a_key_fails_the_task(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory, headers: str
) -> None:
    name = topic(kafka)
    assert sink.write(f"select {headers} headers, 'v' value", topic=name).error is not None
    assert sink.records(name) == []


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            "cast(null as string) topic, 'v' value",
            "The Kafka message data sent to the producer contains a null topic. "
            "Use the `topic` option for setting a default topic.",
        ),
        (
            "'t' topic, -1 partition, 'v' value",
            "Invalid partition: -1. Partition number should always be non-negative or null.",
        ),
    ],
)
def test_a_row_that_cannot_be_a_record_fails_the_task_with_the_same_words(
    sink: SparkSink, columns: str, text: str
) -> None:
    outcome = sink.write(f"select {columns}")
    assert outcome.error is not None
    assert text in outcome.error


def test_a_partition_that_the_topic_does_not_have_fails_naming_both(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka, partitions=2)
    options = {"topic": name, "kafka__max__block__ms": "4000"}
    outcome = sink.write("select 7 partition, 'v' value", **options)
    assert outcome.error is not None
    assert re.search(rf"(?i)partition 7.*{name}|{name}.*(numbered|partition) 7", outcome.error)


def test_a_record_over_the_limit_fails_naming_the_setting_and_the_limit(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    outcome = sink.write("select repeat('v', 3000000) value", topic=topic(kafka))
    assert outcome.error is not None
    assert re.search("max.request.size", outcome.error)
    assert re.search("1048576|1,048,576", outcome.error)


@pytest.mark.parametrize(
    ("columns", "topic_option", "shown"),
    [
        ("'v' value", "", ""),
        ("'v' value", "a b", "a b"),
        ("'a b' topic, 'v' value", None, "a b"),
        ("' t ' topic, 'v' value", None, " t "),
        ("'' topic, 'v' value", None, ""),
    ],
)
def test_a_name_that_no_topic_can_have_fails_as_that(
    sink: SparkSink, columns: str, topic_option: str | None, shown: str
) -> None:
    outcome = sink.write(f"select {columns}", topic=topic_option)
    assert outcome.error is not None
    assert re.search("InvalidTopic", outcome.error)
    assert shown in outcome.error


@pytest.mark.parametrize("mode", ["overwrite"])
def test_modes_that_would_replace_a_topic_are_refused(sink: SparkSink, mode: str) -> None:
    outcome = sink.write("select 'v' value", mode, topic="t")
    assert outcome.error is not None
    assert (
        f"Save mode {mode.capitalize()} not allowed for Kafka. "
        "Allowed save modes are Append and ErrorIfExists (default)." in outcome.error
    )


@pytest.mark.parametrize(("name", "what"), [("key", "keys are"), ("value", "value are")])
def test_serializers_are_refused(sink: SparkSink, name: str, what: str) -> None:
    options = {"topic": "t", f"kafka__{name}__serializer": "x"}
    outcome = sink.write("select 1 value", **options)
    assert outcome.error is not None
    assert (
        f"Kafka option '{name}.serializer' is not supported as {what} serialized with "
        "ByteArraySerializer." in outcome.error
    )


def test_a_missing_bootstrap_address_is_named(sink: SparkSink) -> None:
    outcome = sink.write("select 'v' value", topic="t", kafka__bootstrap__servers=None)
    assert outcome.error is not None
    assert (
        "Kafka option bootstrap.servers is not set. Please make sure it is set and retry."
        in outcome.error
    )


def test_a_setting_out_of_its_range_is_named(sink: SparkSink) -> None:
    outcome = sink.write("select 'v' value", topic="t", kafka__acks="7")
    assert outcome.error is not None
    assert re.search("acks.*all, -1, 0(,| or) 1", outcome.error)


def test_names_of_options_are_in_any_case_and_those_of_the_source_passed_over(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    outcome = sink.write(
        "select 'v' value",
        **{
            "TOPIC": name,
            "kafka.bootstrap.servers": None,
            "Kafka.Bootstrap.Servers": kafka.bootstrap_servers,
            "includeHeaders": "true",
            "startingOffsets": "earliest",
            "kafka.compression.type": "lz4",
        },
    )
    assert outcome.error is None
    assert bare(sink.records(name)) == [(None, b"v")]


def test_many_rows_of_many_tasks_all_arrive(
    sink: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka, partitions=3)
    rows = "select string(id) key, repeat(string(id), 5) value from range(0, 45000, 1, 3)"
    assert sink.write(rows, topic=name).error is None
    records = sink.records(name)
    assert sorted(int(record.key or b"-1") for record in records) == list(range(45_000))
    assert all(record.value == (record.key or b"") * 5 for record in records)
