"""fastprod.load.avro_files: what Spark reads of Avro as it is meant, and files that are alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from fastprod.load.avro_files import avro_names, avro_schema, check_avro_files
from fastprod.load.input_files import InputError, find_files

INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}


def write(path: Path, *fields: Any, codec: str = "null", **more: Any) -> None:
    listed = [each if isinstance(each, dict) else {"name": each, "type": "int"} for each in fields]
    schema = {"type": "record", "name": "R", "namespace": "n", "fields": listed, **more}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [], codec=codec)


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"name": "f", "type": {"type": kind, "logicalType": name, **more}}


def test_types_that_are_meant_alike_are_alike_however_they_are_written(tmp_path: Path) -> None:
    again = {"name": "again", "type": {"type": "map", "values": "n.I"}}
    inner = {"name": "s", "type": ["null", {"type": "array", "items": INNER}]}
    write(tmp_path / "a.avro", "a", inner, again, codec="deflate", doc="one")
    spelled = {"name": "a", "type": {"type": "int"}, "doc": "of it", "default": 0}
    inner = {"name": "s", "type": [{"type": "array", "items": INNER}, "null"]}
    again = {"name": "again", "type": {"type": "map", "values": "I"}}
    write(tmp_path / "b.avro", spelled, inner, again, doc="two", aliases=["other"])
    (tmp_path / "c.avro").touch()
    check_avro_files(find_files([str(tmp_path)]))


def test_a_map_of_metadata_may_have_several_blocks_and_tell_their_sizes(tmp_path: Path) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    value = schema.encode()
    size = bytes([(len(value) * 2 & 0x7F) | 0x80, len(value) * 2 >> 7])
    path = tmp_path / "a.avro"
    path.write_bytes(b"Obj\1\2\2a\2b\1\0\x16avro.schema" + size + value + b"\0")
    assert avro_schema(str(path))["fields"] == [("a", {"type": "int"})]
    assert avro_names(str(path)) == ["a"]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (["a"], ["a", "b"], "field 'b'"),
        (["a", "b"], ["b", "a"], "the order of its fields"),
        (["a"], [{"name": "a", "type": "long"}], "field 'a'"),
        # Spark would read the null, or the number, by the other file's type.
        (["a"], [{"name": "a", "type": ["null", "int"]}], "field 'a'"),
        ([logical("long", "timestamp-micros")], [{"name": "f", "type": "long"}], "field 'f'"),
        (
            [logical("bytes", "decimal", precision=6, scale=2)],
            [logical("bytes", "decimal", precision=6, scale=3)],
            "field 'f'",
        ),
        (
            [{"name": "s", "type": INNER}],
            [{"name": "s", "type": {**INNER, "fields": [{"name": "y", "type": "int"}]}}],
            "field 's'",
        ),
    ],
)
def test_files_that_spark_would_read_by_the_schema_of_another_are_refused(
    tmp_path: Path, one: list[Any], other: list[Any], told: str
) -> None:
    write(tmp_path / "a.avro", *one)
    write(tmp_path / "b.avro", *other)
    with pytest.raises(InputError, match=r"b\.avro has another schema than .*a\.avro") as caught:
        check_avro_files(find_files([str(tmp_path)]))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ({"name": "f", "type": ["null", "int", "string"]}, "is one of null, int, string"),
        ({"name": "f", "type": {"type": "array", "items": ["int", "long"]}}, "'f[]' is one of"),
        (logical("int", "time-millis"), "logical type 'time-millis'"),
        (logical("long", "timestamp-nanos"), "logical type 'timestamp-nanos'"),
        (logical("long", "date"), "is long with the logical type 'date'"),
        ({"name": "f", "type": {"type": "record", "name": "E", "fields": []}}, "without fields"),
        (
            {
                "name": "f",
                "type": {**INNER, "fields": [*INNER["fields"], {"name": "X", "type": "int"}]},
            },
            "fields of f have names that differ in case alone (x, X)",
        ),
    ],
)
def test_types_that_spark_gives_another_meaning_are_refused(
    tmp_path: Path, field: Any, told: str
) -> None:
    write(tmp_path / "a.avro", field)
    with pytest.raises(InputError, match=r"a\.avro: ") as caught:
        check_avro_files(find_files([str(tmp_path)]))
    assert told in str(caught.value)


DAMAGED = [
    b"PAR1",
    b"Obj\1",
    b"Obj\1\0",
    b"Obj\1\2\x16avro.schema\x04",
    b"Obj\1\2\x01",
    b"Obj\1" + b"\xff" * 12,
    b"Obj\1\2\x16avro.schema\x04[]\0"[:-3],
    b"Obj\1\2\x16avro.schema\x04{}\0",
    b"Obj\1\2\x16avro.schema\x02{\0",
]


@pytest.mark.parametrize("data", DAMAGED)
def test_what_is_no_file_of_avro_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.avro cannot be read as avro: "):
        check_avro_files(find_files([str(tmp_path)]))
