"""Protobuf: what its own runtime reads back, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from google.protobuf import descriptor_pb2
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from fastprod.spark.formats import protobuf
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.rows.bad_row import BadRow

INT64, STRING, MESSAGE, BYTES, DOUBLE = 3, 9, 11, 12, 1


@pytest.fixture
def descriptors(tmp_path: Path) -> Path:
    """Of p.Row, with p.Row.Inner in it."""
    file = descriptor_pb2.FileDescriptorProto(
        name="row.proto",
        package="p",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    row = file.message_type.add(name="Row")
    inner = row.nested_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=DOUBLE, label=1)
    entry = row.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=STRING, label=1)
    entry.field.add(name="value", number=2, type=INT64, label=1)
    plain = (("id", INT64, 1), ("name", STRING, 1), ("data", BYTES, 1), ("tags", STRING, 3))
    for number, (name, kind, label) in enumerate(plain, 1):
        row.field.add(name=name, number=number, type=kind, label=label)
    others = (
        ("at", ".google.protobuf.Timestamp", 1),
        ("inner", ".p.Row.Inner", 1),
        ("counts", ".p.Row.CountsEntry", 3),
    )
    for number, (name, kind_name, label) in enumerate(others, 5):
        row.field.add(name=name, number=number, type=MESSAGE, label=label, type_name=kind_name)
    path = tmp_path / "row.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return path


def plan(schema: StructType, path: Path | str, message: str = "p.Row") -> Any:
    options = {"protobuf.descriptor": str(path), "protobuf.message": message}
    return protobuf.plan(schema, options, None)


def test_rows_are_read_back(descriptors: Path) -> None:
    rows = pyarrow.RecordBatch.from_pydict(
        {
            "id": [7, None],
            "name": ["\u20ac", None],
            "data": [b"\xff", None],
            "tags": [["a", "b"], None],
            "at": pyarrow.array(
                [datetime(2020, 1, 2, tzinfo=UTC), None], pyarrow.timestamp("us", "UTC")
            ),
            "inner": [{"x": 1.5}, None],
            "counts": pyarrow.array(
                [[("k", 3)], None], pyarrow.map_(pyarrow.string(), pyarrow.int64())
            ),
        }
    )
    encoder = plan(from_arrow_schema(rows.schema), descriptors)
    full, empty = encoder.encode(rows).to_pylist()
    found = protobuf._message_class(encoder.descriptors, "p.Row").FromString(full)
    assert (found.id, found.name, found.data, list(found.tags)) == (
        7,
        "\u20ac",
        b"\xff",
        ["a", "b"],
    )
    assert (found.at.seconds, found.inner.x, dict(found.counts)) == (1_577_923_200, 1.5, {"k": 3})
    assert empty == b""


def test_a_null_struct_has_no_fields_whatever_these_are_declared(descriptors: Path) -> None:
    """As Spark makes it of when(...) and of outer joins: a null below the null."""
    inner = pyarrow.StructArray.from_arrays(
        [pyarrow.array([1.5, None])],
        fields=[pyarrow.field("x", pyarrow.float64(), nullable=False)],
        mask=pyarrow.array([False, True]),
    )
    rows = pyarrow.RecordBatch.from_arrays([inner], ["inner"])
    encoder = plan(from_arrow_schema(rows.schema), descriptors)
    full, empty = encoder.encode(rows).to_pylist()
    found = protobuf._message_class(encoder.descriptors, "p.Row").FromString(full)
    assert (found.inner.x, empty) == (1.5, b"")


@pytest.mark.parametrize(
    ("column", "kind", "reason"),
    [
        ("ID", LongType(), "has no field for column 'ID'; it has id, name"),
        ("id", StringType(), "'id' is of type string; the field p.Row.id is int64"),
        ("name", BinaryType(), "is of type binary; the field p.Row.name is string or bytes"),
        ("tags", StringType(), "the field p.Row.tags is repeated string"),
        ("id", ArrayType(LongType()), "is of type array<bigint>"),
        (
            "inner",
            StructType().add("y", DoubleType()),
            r"message p.Row.Inner has no field for column 'inner\.y'",
        ),
        ("at", DateType(), "the field p.Row.at is google.protobuf.Timestamp"),
        ("counts", MapType(StringType(), StringType()), r"'counts\.value' is of type string"),
    ],
)
def test_a_column_that_is_no_such_field_is_refused(
    descriptors: Path, column: str, kind: DataType, reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        plan(StructType().add(column, kind), descriptors)


@pytest.mark.parametrize("zone", ["Z", "GMT+8", "PST", "America/New_York", "-03:30", "+01:02:03"])
def test_times_are_the_same_in_every_zone_that_a_session_can_have(
    descriptors: Path, zone: str
) -> None:
    microseconds = [1_577_923_200_123_456, -1, -62_135_596_800_000_000]
    times = pyarrow.array(microseconds).cast(pyarrow.timestamp("us", zone))
    rows = pyarrow.RecordBatch.from_pydict({"at": times})
    encoder = plan(StructType().add("at", TimestampType()), descriptors)
    message = protobuf._message_class(encoder.descriptors, "p.Row")
    found = [message.FromString(each).at for each in encoder.encode(rows).to_pylist()]
    assert [each.ToMicroseconds() for each in found] == microseconds


def test_a_time_that_the_message_has_not_is_told_by_its_row(descriptors: Path) -> None:
    times = pyarrow.array([0, 253_402_300_800_000_000], pyarrow.timestamp("us", "UTC"))
    rows = pyarrow.RecordBatch.from_pydict({"at": times})
    with pytest.raises(BadRow, match="out of range") as caught:
        plan(from_arrow_schema(rows.schema), descriptors).encode(rows)
    assert caught.value.index == 1


def test_a_null_among_the_elements_is_told_by_its_row(descriptors: Path) -> None:
    rows = pyarrow.RecordBatch.from_pydict({"tags": [["a"], [None]]})
    encoder = plan(StructType().add("tags", ArrayType(StringType())), descriptors)
    with pytest.raises(BadRow, match="cannot be encoded: ") as caught:
        encoder.encode(rows)
    assert caught.value.index == 1


def test_what_cannot_be_read_is_refused(descriptors: Path, tmp_path: Path) -> None:
    schema = StructType().add("id", LongType())
    with pytest.raises(FormatError, match=r"needs protobuf\.descriptor"):
        protobuf.plan(schema, {}, None)
    with pytest.raises(FormatError, match=r"cannot read .*No such file"):
        plan(schema, tmp_path / "none")
    with pytest.raises(FormatError, match=r"p\.Other is not to be had"):
        plan(schema, descriptors, "p.Other")
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff\xff\xff")
    with pytest.raises(FormatError, match=r"p\.Row is not to be had"):
        plan(schema, bad)


def test_a_row_with_two_values_of_a_oneof_is_refused(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="Row")
    message.oneof_decl.add(name="either")
    for number, name in enumerate(("a", "b"), 1):
        message.field.add(name=name, number=number, type=INT64, label=1, oneof_index=0)
    path = tmp_path / "o.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    encoder = plan(StructType().add("a", LongType()).add("b", LongType()), path)
    rows = pyarrow.RecordBatch.from_pydict({"a": [1, None, 1], "b": [None, 2, 2]})
    assert encoder.encode(rows.slice(0, 2)).to_pylist() == [b"\x08\x01", b"\x10\x02"]
    with pytest.raises(BadRow, match="a and b are of one oneof") as caught:
        encoder.encode(rows)
    assert caught.value.index == 2


EITHER = pyarrow.struct([("a", pyarrow.int64()), ("b", pyarrow.int64())])


@pytest.mark.parametrize(
    ("column", "kind", "fine", "bad"),
    [
        ("inner", EITHER, {"a": 1}, {"a": 1, "b": 2}),
        ("list", pyarrow.list_(EITHER), [{"a": 1}, {"b": 2}], [{"a": 1}, {"a": 1, "b": 2}]),
        (
            "map",
            pyarrow.map_(pyarrow.string(), EITHER),
            [("x", {"a": 1}), ("y", {"b": 2})],
            [("x", {"a": 1}), ("y", {"a": 1, "b": 2})],
        ),
        (
            "deep",
            pyarrow.struct([("inner", EITHER)]),
            {"inner": {"a": 1}},
            {"inner": {"a": 1, "b": 2}},
        ),
    ],
)
def test_two_values_of_a_oneof_in_a_message_of_the_row_are_refused(
    tmp_path: Path, column: str, kind: pyarrow.DataType, fine: Any, bad: Any
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="p", syntax="proto3")
    either = file.message_type.add(name="Either")
    either.oneof_decl.add(name="either")
    for number, name in enumerate(("a", "b"), 1):
        either.field.add(name=name, number=number, type=INT64, label=1, oneof_index=0)
    row = file.message_type.add(name="Row")
    entry = row.nested_type.add(name="MapEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=STRING, label=1)
    entry.field.add(name="value", number=2, type=MESSAGE, label=1, type_name=".p.Either")
    for number, (name, label, of) in enumerate(
        (
            ("inner", 1, "Either"),
            ("list", 3, "Either"),
            ("map", 3, "Row.MapEntry"),
            ("deep", 1, "Row"),
        )
    ):
        row.field.add(name=name, number=number + 1, type=MESSAGE, label=label, type_name=f".p.{of}")
    path = tmp_path / "o.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    rows = pyarrow.RecordBatch.from_pydict({column: pyarrow.array([fine, None, bad], kind)})
    encoder = plan(from_arrow_schema(rows.schema), path)
    assert len(encoder.encode(rows.slice(0, 2))) == 2
    with pytest.raises(BadRow, match=r"\.a and .*\.b are of one oneof") as caught:
        encoder.encode(rows)
    assert caught.value.index == 2


def test_times_in_a_map_are_refused_before_any_row(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(
        name="m.proto",
        package="p",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    row = file.message_type.add(name="Row")
    entry = row.nested_type.add(name="TimesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=STRING, label=1)
    entry.field.add(
        name="value", number=2, type=MESSAGE, label=1, type_name=".google.protobuf.Timestamp"
    )
    row.field.add(name="times", number=1, type=MESSAGE, label=3, type_name=".p.Row.TimesEntry")
    path = tmp_path / "m.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    times = MapType(StringType(), TimestampType())
    with pytest.raises(FormatError, match=r"'times' is of type map<string,timestamp>: .*structs"):
        plan(StructType().add("times", times), path)
    parts = StructType().add("seconds", LongType()).add("nanos", IntegerType())
    encoder = plan(StructType().add("times", MapType(StringType(), parts)), path)
    kind = pyarrow.map_(
        pyarrow.string(), pyarrow.struct([("seconds", pyarrow.int64()), ("nanos", pyarrow.int32())])
    )
    rows = pyarrow.RecordBatch.from_pydict(
        {"times": pyarrow.array([[("x", {"seconds": 5, "nanos": 6})]], kind)}
    )
    (message,) = encoder.encode(rows).to_pylist()
    found = protobuf._message_class(encoder.descriptors, "p.Row").FromString(message)
    assert (found.times["x"].seconds, found.times["x"].nanos) == (5, 6)


def test_a_row_without_a_field_that_is_required_is_told_by_its_number(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="p", syntax="proto2")
    row = file.message_type.add(name="Row")
    row.field.add(name="id", number=1, type=INT64, label=2)
    path = tmp_path / "row.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    rows = pyarrow.RecordBatch.from_pydict({"id": [1, None]})
    with pytest.raises(BadRow, match="fields that are required have no value: id") as caught:
        plan(from_arrow_schema(rows.schema), path).encode(rows)
    assert caught.value.index == 1
