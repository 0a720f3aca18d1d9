"""Avro: what fastavro reads back, and what is refused."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, LongType, MapType, StructType, VariantType

from fastprod.spark.formats import avro
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.rows.bad_row import BadRow

KINDS: dict[str, tuple[pyarrow.DataType, Any]] = {
    "b": (pyarrow.bool_(), True),
    "i": (pyarrow.int8(), -5),
    "l": (pyarrow.int64(), 2**62),
    "d": (pyarrow.float64(), 1.5),
    "s": (pyarrow.string(), "\u20ac"),
    "y": (pyarrow.binary(), b"\0\xff"),
    "n": (pyarrow.decimal128(38, 10), Decimal("-12345678901234567890.0123456789")),
    "day": (pyarrow.date32(), date(1582, 10, 10)),
    "at": (pyarrow.timestamp("us", "UTC"), datetime(2020, 1, 2, 3, 4, 5, 6, UTC)),
    "local": (pyarrow.timestamp("us"), datetime(1, 1, 1)),
    "list": (pyarrow.list_(pyarrow.timestamp("us")), [datetime(2020, 1, 1), None]),
    "map": (pyarrow.map_(pyarrow.string(), pyarrow.date32()), [("a", date(2020, 1, 1))]),
    "struct": (
        pyarrow.struct([("x", pyarrow.int32()), ("d", pyarrow.date32())]),
        {"x": 1, "d": None},
    ),
}
ROWS = pyarrow.RecordBatch.from_pydict(
    {name: pyarrow.array([value, None], kind) for name, (kind, value) in KINDS.items()}
)


def read(data: bytes, schema: str) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), json.loads(schema), None)


def plan(schema: StructType, **options: str) -> avro.AvroEncoder:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return avro.plan(schema, named, None, "value")


def test_rows_are_read_back_by_a_schema_that_is_derived() -> None:
    encoder = plan(from_arrow_schema(ROWS.schema))
    found = [read(each, encoder.schema) for each in encoder.encode(ROWS).to_pylist()]
    assert found == ROWS.to_pylist(maps_as_pydicts="strict")


def test_a_schema_that_is_given_is_kept_to() -> None:
    rows = pyarrow.RecordBatch.from_pydict({"a": [1, 2]})
    schema = json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "z", "type": "int", "default": 9}, {"name": "a", "type": "long"}],
        }
    )
    encoder = plan(from_arrow_schema(rows.schema), avro__schema=schema)
    found = [read(each, schema) for each in encoder.encode(rows).to_pylist()]
    assert found == [{"z": 9, "a": 1}, {"z": 9, "a": 2}]


@pytest.mark.parametrize(
    ("wanted", "default", "found"),
    [
        ("bytes", "\u00ff", b"\xff"),
        ("bytes", "", b""),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\x01", b"\xff\x01"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\x01\x00",
            Decimal("2.56"),
        ),
        (["bytes", "string"], "ab", b"ab"),
        (["string", "bytes"], "ab", "ab"),
        (["null", "bytes"], None, None),
        (
            {"type": "map", "values": {"type": "array", "items": "bytes"}},
            {"k": ["a"]},
            {"k": [b"a"]},
        ),
        (
            {
                "type": "record",
                "name": "Q",
                "fields": [
                    {"name": "b", "type": "bytes"},
                    {"name": "c", "type": ["bytes", "null"], "default": "z"},
                ],
            },
            {"b": "\u00fe"},
            {"b": b"\xfe", "c": b"z"},
        ),
    ],
)
def test_a_field_that_is_no_column_has_its_default(wanted: Any, default: Any, found: Any) -> None:
    rows = pyarrow.RecordBatch.from_pydict({"a": [1]})
    fields = [{"name": "a", "type": "long"}, {"name": "z", "type": wanted, "default": default}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    encoder = plan(from_arrow_schema(rows.schema), avro__schema=schema)
    (data,) = encoder.encode(rows).to_pylist()
    assert read(data, schema) == {"a": 1, "z": found}


def test_a_default_that_is_no_bytes_is_refused() -> None:
    fields = [{"name": "a", "type": "bytes", "default": "\u0100"}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    with pytest.raises(FormatError, match="no schema of Avro"):
        plan(StructType(), avro__schema=schema)


def test_a_row_that_does_not_fit_is_told_by_its_number() -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
    rows = pyarrow.RecordBatch.from_pydict({"a": [1, None]})
    encoder = plan(from_arrow_schema(rows.schema), avro__schema=schema)
    with pytest.raises(BadRow, match="cannot be encoded: ") as caught:
        encoder.encode(rows)
    assert caught.value.index == 1


TRUTH = {"type": "record", "name": "T", "fields": [{"name": "b", "type": "boolean"}]}


@pytest.mark.parametrize(
    ("kind", "wanted", "fine", "bad", "place"),
    [
        (pyarrow.bool_(), "boolean", True, None, "a is null"),
        (
            pyarrow.struct([("b", pyarrow.bool_())]),
            TRUTH,
            {"b": True},
            {"b": None},
            r"a\.b is null",
        ),
        (
            pyarrow.list_(pyarrow.bool_()),
            {"type": "array", "items": "boolean"},
            [True],
            [True, None],
            r"a\.\* is null",
        ),
        (
            pyarrow.map_(pyarrow.string(), pyarrow.bool_()),
            {"type": "map", "values": "boolean"},
            [],
            [("x", None)],
            r"a\.\* is null",
        ),
        (
            pyarrow.list_(pyarrow.struct([("b", pyarrow.bool_())])),
            {"type": "array", "items": TRUTH},
            [],
            [{"b": False}, {"b": None}],
            r"a\.\*\.b is null",
        ),
        (
            pyarrow.struct([("b", pyarrow.bool_())]),
            {"type": "map", "values": "boolean"},
            {"b": True},
            {"b": None},
            r"a\.b is null",
        ),
        (
            pyarrow.map_(pyarrow.string(), pyarrow.bool_()),
            TRUTH,
            [("b", True)],
            [("b", None)],
            r"a\.b is null",
        ),
        (
            pyarrow.struct([("b", pyarrow.bool_())]),
            ["null", TRUTH],
            None,
            {"b": None},
            "do not match",
        ),
    ],
)
def test_null_is_not_written_as_false(
    kind: pyarrow.DataType, wanted: Any, fine: Any, bad: Any, place: str
) -> None:
    rows = pyarrow.record_batch([pyarrow.array([fine, bad], kind)], ["a"])
    fields = [{"name": "a", "type": wanted}, {"name": "n", "type": "boolean", "default": True}]
    given = json.dumps({"type": "record", "name": "R", "fields": fields})
    encoder = plan(from_arrow_schema(rows.schema), avro__schema=given)
    assert len(encoder.encode(rows.slice(0, 1))) == 1
    with pytest.raises(BadRow, match=place) as caught:
        encoder.encode(rows)
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "no schema of Avro's"),
        ('"int"', "must be a record"),
        ('{"type": "record", "name": "R", "fields": []}', "no field for a"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"},'
            ' {"name": "q", "type": "int"}]}',
            "without a default that are no columns: q",
        ),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        plan(StructType().add("a", LongType()), avro__schema=schema)


def test_types_and_names_that_avro_has_not_are_refused() -> None:
    with pytest.raises(
        FormatError, match=r"column 'v' is of type variant, which value\.format=avro"
    ):
        plan(StructType().add("v", VariantType()))
    with pytest.raises(FormatError, match="no field named 'a b': rename"):
        plan(StructType().add("a b", LongType()))
    with pytest.raises(FormatError, match="maps are strings"):
        plan(StructType().add("m", MapType(LongType(), LongType())))


def test_a_missing_library_is_told_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    avro._writer.cache_clear()
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(FormatError, match="pip install 'fastavro'"):
        plan(StructType().add("a", LongType()))


@pytest.mark.parametrize(
    ("column", "wanted", "told"),
    [
        ("at", "float", "at is of type float"),
        ("at", ["null", "double"], "at is of type double"),
        ("local", "double", "local is of type double"),
        ("day", "float", "day is of type float"),
        ("d", "long", "d is of type long"),
        ("d", "int", "d is of type int"),
        ("d", ["null", "long", "double"], None),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}, "at is of type timestamp-mi"),
        ("at", ["null", {"type": "long", "logicalType": "timestamp-nanos"}], "timestamp-nanos"),
        ("local", {"type": "long", "logicalType": "local-timestamp-millis"}, "local-timestamp-mi"),
        ("day", {"type": "int", "logicalType": "time-millis"}, "time-millis"),
        ("l", "int", "l is of type int, and its column of type bigint"),
        ("d", ["float", "double"], "d is of type float"),
        ("d", "float", "d is of type float, and its column of type double"),
        (
            "list",
            {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}},
            "list.element is of type timestamp-millis",
        ),
        ("at", ["null", {"type": "long", "logicalType": "timestamp-micros"}], None),
        ("at", "long", "at is of type long, and its column of type timestamp"),
        ("at", {"type": "long", "logicalType": "local-timestamp-micros"}, "at is of type local-"),
        ("local", ["null", "long"], "local is of type long"),
        ("local", {"type": "long", "logicalType": "timestamp-micros"}, "local is of type timest"),
        ("l", "double", "l is of type double, and its column of type bigint"),
        ("l", ["double", "long"], "l is of type double"),
        ("l", {"type": "long", "logicalType": "timestamp-millis"}, None),
        ("d", ["null", "double"], None),
        # fastavro would write each of these without a word.
        ("n", "long", "n is of type long, and its column of type decimal"),
        ("n", "double", "n is of type double"),
        ("n", ["null", "long"], "n is one of null, long, and its column of type decimal"),
        ("s", "boolean", "s is of type boolean"),
        ("s", "double", "s is of type double"),
        ("s", {"type": "array", "items": "string"}, "s is of type array"),
        ("s", "null", "s is of type null"),
        ("y", {"type": "array", "items": "int"}, "y is of type array"),
        ("b", "int", "b is of type int"),
        ("l", "boolean", "l is of type boolean"),
        ("map", {"type": "array", "items": "string"}, "map is of type array"),
        ("struct", {"type": "array", "items": "string"}, "struct is of type array"),
        ("struct", {"type": "map", "values": "boolean"}, "struct.x is of type boolean"),
        ("struct", {"type": "map", "values": ["null", "int"]}, None),
        (
            "struct",
            {"type": "record", "name": "q", "fields": [{"name": "x", "type": ["null", "int"]}]},
            "no field for struct.d",
        ),
        (
            "map",
            {"type": "record", "name": "q", "fields": [{"name": "a", "type": "boolean"}]},
            "map.a is of type boolean",
        ),
        ("s", ["null", {"type": "enum", "name": "e", "symbols": ["A"]}, "string"], None),
        ("s", ["null", {"type": "int", "logicalType": "date"}, "string"], "s is of type date"),
        ("s", {"type": "string", "logicalType": "url"}, None),
        ("y", {"type": "fixed", "name": "f", "size": 2}, None),
        ("n", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}, None),
    ],
)
def test_a_schema_that_would_give_values_another_meaning_is_refused(
    column: str, wanted: Any, told: str | None
) -> None:
    schema = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": column, "type": wanted}]}
    )
    columns = from_arrow_schema(ROWS.select([column]).schema)
    if told is None:
        assert plan(columns, avro__schema=schema).schema == schema
    else:
        with pytest.raises(FormatError, match=told):
            plan(columns, avro__schema=schema)


def test_types_that_a_schema_names_again_are_looked_into() -> None:
    record = {"type": "record", "name": "q", "fields": [{"name": "x", "type": "boolean"}]}
    fields = [{"name": "a", "type": ["null", record], "default": None}, {"name": "s", "type": "q"}]
    schema = json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": fields})
    columns = StructType().add("s", StructType().add("x", LongType()))
    with pytest.raises(FormatError, match=r"s\.x is of type boolean"):
        plan(columns, avro__schema=schema)
    assert plan(StructType().add("s", StructType().add("x", BooleanType())), avro__schema=schema)


def test_of_several_records_one_has_to_fit() -> None:
    def record(name: str, kind: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]}

    def schema(*kinds: str) -> str:
        union = ["null", *(record(f"r{index}", kind) for index, kind in enumerate(kinds))]
        return json.dumps({"type": "record", "name": "R", "fields": [{"name": "s", "type": union}]})

    columns = StructType().add("s", StructType().add("x", LongType()))
    rows = pyarrow.RecordBatch.from_pydict({"s": [{"x": 5}]})
    wanted = schema("string", "long")
    (found,) = plan(columns, avro__schema=wanted).encode(rows).to_pylist()
    assert read(found, wanted) == {"s": {"x": 5}}
    with pytest.raises(FormatError, match=r"s\.x is of type string"):
        plan(columns, avro__schema=schema("string", "boolean"))


@pytest.mark.parametrize("kind", [pyarrow.int64(), pyarrow.timestamp("us", "UTC")])
def test_a_null_struct_has_no_fields_whatever_these_are_declared(kind: pyarrow.DataType) -> None:
    """As Spark makes them of when(...) and of outer joins: nulls below the null."""
    structs = pyarrow.StructArray.from_arrays(
        [pyarrow.array([5, None], kind)],
        fields=[pyarrow.field("x", kind, nullable=False)],
        mask=pyarrow.array([False, True]),
    )
    outer = pyarrow.StructArray.from_arrays([structs], names=["in"])
    lists = pyarrow.ListArray.from_arrays([0, 1, 2], structs)
    maps = pyarrow.MapArray.from_arrays([0, 1, 2], ["a", "b"], structs)
    rows = pyarrow.RecordBatch.from_arrays([structs, outer, lists, maps], ["s", "o", "l", "m"])
    encoder = plan(from_arrow_schema(rows.schema))
    found = [read(each, encoder.schema) for each in encoder.encode(rows).to_pylist()]
    assert found == rows.to_pylist(maps_as_pydicts="strict")
