"""fastprod.load.avro_files: the fields of files, and the file that has them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from fastprod.load.avro_files import avro_fields, widest_file
from fastprod.load.input_files import InputError, find_files


def write(path: Path, *fields: Any, codec: str = "null") -> None:
    listed = [each if isinstance(each, dict) else {"name": each, "type": "int"} for each in fields]
    schema = {"type": "record", "name": "R", "namespace": "n", "fields": listed}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [], codec=codec)


INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}


def test_fields_are_found_wherever_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    write(
        path,
        "a",
        {"name": "s", "type": ["null", {"type": "array", "items": INNER}]},
        {"name": "again", "type": {"type": "map", "values": "n.I"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "node", "type": node},
        codec="deflate",
    )
    found = {".".join(each) for each in avro_fields(str(path))}
    assert found == {"a", "s", "s.x", "again", "again.x", "at", "node", "node.next"}


def test_a_map_of_metadata_may_have_several_blocks_and_tell_their_sizes(tmp_path: Path) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    value = schema.encode()
    size = bytes([(len(value) * 2 & 0x7F) | 0x80, len(value) * 2 >> 7])
    path = tmp_path / "a.avro"
    path.write_bytes(b"Obj\1\2\2a\2b\1\0\x16avro.schema" + size + value + b"\0")
    assert avro_fields(str(path)) == {("a",)}


def test_the_file_with_all_fields_is_found_in_any_order(tmp_path: Path) -> None:
    nested = {"name": "s", "type": INNER}
    write(tmp_path / "a.avro", "value")
    write(tmp_path / "b.avro", "value", "key", nested)
    write(tmp_path / "c.avro", "key", "value")
    (tmp_path / "d.avro").touch()
    files = find_files([str(tmp_path)])
    widest = widest_file(files)
    assert widest is not None
    assert widest.path == str(tmp_path / "b.avro")
    assert widest_file([files[2], files[3]]) is None
    write(tmp_path / "c.avro", "value", "other")
    with pytest.raises(InputError, match=r"c\.avro has the field other, which .*b\.avro does not"):
        widest_file(find_files([str(tmp_path)]))


@pytest.mark.parametrize(
    "data", [b"PAR1", b"Obj\1", b"Obj\1\2", b"Obj\1\0", b"Obj\1" + b"\xff" * 11, b"Obj\1\2\1a"]
)
def test_what_is_no_file_of_avro_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.avro cannot be read as avro"):
        avro_fields(str(tmp_path / "a.avro"))
