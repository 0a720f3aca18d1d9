"""Which columns become a record's value and key."""

from __future__ import annotations

import pickle

import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import (
    BinaryType,
    DayTimeIntervalType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.formats.record_format import record_format
from fastprod.spark.rows.bad_row import BadRow

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("topic", StringType()),
        StructField("name", StringType()),
        StructField("timestamp", LongType()),
        StructField("value", BinaryType()),
        StructField("trace", StringType()),
    ]
)
BATCH = pyarrow.RecordBatch.from_pydict(
    {"id": [7], "topic": ["t"], "name": ["n"], "timestamp": [1], "value": [b"v"], "trace": ["x"]}
)


def encoded(headers: tuple[tuple[str, str], ...] = (), **options: str) -> dict[str, object]:
    """The row that comes out; the plan has been pickled on the way."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    made = pickle.loads(pickle.dumps(record_format(SCHEMA, named, headers)))
    (batch,) = made.batches(iter([BATCH]))
    assert batch.schema.names == made.schema.fieldNames()
    row: dict[str, object] = batch.to_pylist()[0]
    return row


def test_without_options_nothing_changes() -> None:
    assert encoded() == BATCH.to_pylist()[0]


def test_a_star_is_every_column_that_is_no_part_of_a_record() -> None:
    assert encoded(value__format="json") == {
        "topic": "t",
        "timestamp": 1,
        "value": b'{"id":7,"name":"n","value":"dg==","trace":"x"}',
    }


def test_a_header_is_not_made_of_what_a_format_makes() -> None:
    with pytest.raises(FormatError, match=r"header\.column\.h names 'value', which is what value"):
        encoded((("h", "value"),), value__format="json")
    assert encoded((("h", "value"),), value__format="raw")["value"] == b"v"


def test_a_topic_that_nobody_looks_at_is_a_column_like_others() -> None:
    row = encoded(value__format="json", topic="other", value__columns="*")
    assert row["value"] == b'{"id":7,"topic":"t","name":"n","value":"dg==","trace":"x"}'


@pytest.mark.parametrize(
    ("columns", "key", "value"),
    [
        ("id", b'{"id":7}', b'{"id":7,"key":{"a":"x"},"name":"n"}'),
        ("id, key", b'{"id":7,"key":{"a":"x"}}', b'{"id":7,"name":"n"}'),
        ("key.*", b'{"a":"x"}', b'{"id":7,"name":"n"}'),
    ],
)
def test_a_column_key_that_is_not_the_key_is_a_column_like_others(
    columns: str, key: bytes, value: bytes
) -> None:
    batch = pyarrow.RecordBatch.from_pydict({"id": [7], "key": [{"a": "x"}], "name": ["n"]})
    options = {"value.format": "json", "key.columns": columns}
    made = record_format(from_arrow_schema(batch.schema), options)
    assert made.encode(batch).to_pylist() == [{"value": value, "key": key}]


def test_columns_are_encoded_in_the_order_they_are_named_in() -> None:
    row = encoded(value__format="JSON", value__columns=" timestamp, id", topic="t")
    assert row == {"topic": "t", "timestamp": 1, "value": b'{"timestamp":1,"id":7}'}


def test_keys_have_the_format_of_values_or_their_own() -> None:
    row = encoded(value__format="json", value__columns="name", key__columns="id")
    assert (row["value"], row["key"]) == (b'{"name":"n"}', b'{"id":7}')
    row = encoded(value__format="json", key__columns="name", key__format="raw")
    assert row["key"] == "n"


def test_a_header_column_is_kept_and_encoded() -> None:
    row = encoded((("h", "trace"),), value__format="json", value__columns="trace")
    assert (row["value"], row["trace"]) == (b'{"trace":"x"}', "x")


def test_raw_takes_one_column_as_it_is() -> None:
    assert encoded(value__columns="name")["value"] == "n"
    assert encoded(value__format="raw")["value"] == b"v"


INNER = StructType([StructField("key", LongType()), StructField("a", StringType())])
NESTED = StructType(
    [
        StructField("value", INNER),
        StructField("key", StringType()),
        StructField("timestamp", LongType()),
    ]
)


def test_the_fields_of_a_struct_may_have_the_names_of_a_records_parts() -> None:
    structs = [{"key": 7, "a": "x"}, None, {"key": None, "a": "y"}]
    batch = pyarrow.RecordBatch.from_pydict(
        {"value": structs, "key": ["k", "l", None], "timestamp": [1, 2, 3]}
    )
    options = {"value.format": "json", "value.columns": " value.* "}
    made = pickle.loads(pickle.dumps(record_format(NESTED, options)))
    (found,) = made.batches(iter([batch]))
    assert found.to_pylist() == [
        {"key": "k", "timestamp": 1, "value": b'{"key":7,"a":"x"}'},
        {"key": "l", "timestamp": 2, "value": None},
        {"key": None, "timestamp": 3, "value": b'{"a":"y"}'},
    ]
    (last,) = made.batches(iter([batch.slice(1)]))
    assert last.to_pylist() == found.to_pylist()[1:]


REQUIRED = pyarrow.struct(
    [pyarrow.field("id", pyarrow.int64(), False), pyarrow.field("in", pyarrow.struct([]))]
)


@pytest.mark.parametrize("part", ["value", "key"])
def test_a_null_struct_is_a_null_though_its_fields_are_not_nullable(part: str) -> None:
    structs = pyarrow.array([None, {"id": 1}, None, None, {"id": 2}, None], REQUIRED)
    schema = StructType([StructField("s", from_arrow_type(REQUIRED)), StructField("v", LongType())])
    batch = pyarrow.RecordBatch.from_arrays([structs, pyarrow.array(range(6))], names=["s", "v"])
    options = {"value.format": "avro", "value.columns": "v", f"{part}.columns": "s.*"}
    (found,) = record_format(schema, options).batches(iter([batch.slice(1)]))
    wanted = [b"\2\0", None, None, b"\4\0", None]
    assert found.column(part).to_pylist() == wanted


def test_a_row_behind_null_structs_is_told_by_its_own_number() -> None:
    structs = pyarrow.array([{"id": 1}, None, None, {"id": None}])
    schema = StructType([StructField("s", StructType([StructField("id", LongType())]))])
    given = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    options = {"value.format": "avro", "value.columns": "s.*", "avro.schema": given}
    batch = pyarrow.RecordBatch.from_arrays([structs], names=["s"])
    with pytest.raises(BadRow) as caught:
        list(record_format(schema, options).batches(iter([batch])))
    assert caught.value.index == 3


@pytest.mark.parametrize("value_format", ["json", "avro"])
def test_only_null_structs_are_only_nulls(value_format: str) -> None:
    structs = pyarrow.array([None, None], pyarrow.struct([("id", pyarrow.int64())]))
    schema = StructType([StructField("s", StructType([StructField("id", LongType())]))])
    options = {"value.format": value_format, "value.columns": "s.*"}
    batch = pyarrow.RecordBatch.from_arrays([structs], names=["s"])
    (found,) = record_format(schema, options).batches(iter([batch]))
    assert found.column("value").to_pylist() == [None, None]


def test_fields_that_are_no_structs_or_cannot_be_told_apart_are_refused() -> None:
    options = {"value.format": "json", "value.columns": "key.*"}
    with pytest.raises(
        FormatError, match=r"key\.\* is the fields of a struct, and column 'key' is"
    ):
        record_format(NESTED, options)
    doubled = StructType([StructField("a", LongType()), StructField("a", LongType())])
    with pytest.raises(FormatError, match="'a' twice"):
        record_format(StructType([StructField("s", doubled)]), options | {"value.columns": "s.*"})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"value.format": "xml"}, "must be one of json, avro, protobuf, raw"),
        ({"key.columns": "id", "key.format": "protobuf"}, "must be one of json, avro, raw"),
        ({"value.format": "json", "key.format": "raw"}, "key.format needs key.columns"),
        ({"value.format": "json", "value.columns": "nmae"}, "did you mean name"),
        ({"value.format": "json", "value.columns": "qqq"}, "there are id, topic"),
        ({"value.format": "json", "value.columns": "id,id"}, "'id' twice"),
        ({"value.format": "raw", "value.columns": "id"}, "'id' is of type bigint"),
        ({"value.format": "raw", "value.columns": "name,value"}, "takes one column, not 2"),
        ({"json.timezone": "UTC"}, "says nothing without value.format"),
        (
            {"value.format": "avro", "json.timezone": "UTC"},
            "says nothing without value.format=json",
        ),
        ({"value.format": "json", "avro.schema": "{}"}, "says nothing without value.format=avro"),
        (
            {
                "value.format": "json",
                "key.columns": "id",
                "key.format": "avro",
                "avro.schema": "{}",
            },
            "avro.schema says nothing without value.format=avro",
        ),
        ({"value.format": "json", "protobuf.message": "M"}, "without value.format=protobuf"),
        (
            {"value.format": "avro", "value.columns": "id", "schema.registry.uri": "http://x"},
            "schema.registry.uri says nothing without schema.registry.url",
        ),
        ({"schema.registry.url": "http://x"}, "says nothing without value.format=avro or protobuf"),
        ({"value.format": "json", "json.timezone": "Mars"}, "there is no time zone 'Mars'"),
        ({"value.format": "json", "json.ignorenullfields": "yes"}, "must be true or false"),
        ({"value.format": "json", "json.dateformat": "EEE"}, "json.dateFormat = 'EEE'"),
        ({"value.format": "json", "schema.registry.url": "x"}, "needs value.format=avro or"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        record_format(SCHEMA, options)


def test_keys_alone_may_have_the_options_of_a_format() -> None:
    options = {"json.timezone": "UTC", "schema.registry.url": " "}
    made = record_format(SCHEMA, {"key.columns": "id", "key.format": "json", **options})
    assert [each.name for each in made.parts] == ["value", "key"]


def test_types_without_a_form_are_refused_by_name_at_any_depth() -> None:
    inner = StructType([StructField("v", VariantType())])
    with pytest.raises(FormatError, match=r"column 's\.v' is of type variant, which value\.format"):
        record_format(StructType([StructField("s", inner)]), {"value.format": "json"})
    schema = StructType([StructField("i", DayTimeIntervalType())])
    with pytest.raises(FormatError, match="column 'i' is of type interval day to second"):
        record_format(schema, {"value.format": "json"})


def test_columns_of_one_name_are_refused() -> None:
    doubled = StructType([StructField("a", LongType()), StructField("a", LongType())])
    with pytest.raises(FormatError, match="'a' twice"):
        record_format(doubled, {"value.format": "json"})


def test_only_columns_of_a_record_leave_nothing_to_encode() -> None:
    schema = StructType([StructField("key", LongType()), StructField("topic", StringType())])
    with pytest.raises(FormatError, match="finds no column but those of a record"):
        record_format(schema, {"value.format": "json"})
