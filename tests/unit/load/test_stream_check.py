"""fastprod.load.stream_check: each file of a stream is like those before it."""

from __future__ import annotations

import gzip
from pathlib import Path

import fastavro
import pyarrow
import pyarrow.parquet
import pytest

from fastprod.load.avro_files import avro_schema
from fastprod.load.input_files import InputError
from fastprod.load.spark_check import text_check
from fastprod.load.stream_check import StreamCheck


def url(path: Path) -> str:
    return path.as_uri()


def test_parts_of_text_are_looked_at_where_they_are(tmp_path: Path) -> None:
    types = {"a": pyarrow.int64()}
    text = text_check("json", {}, types=types, knows_all=True)
    path = tmp_path / "a b%.json"
    good, bad = b'{"a": 1}\n', b'{"b": 2}\n'
    path.write_bytes(good + bad)
    check = StreamCheck("json", text)
    check.check(url(path), 0, len(good))
    with pytest.raises(InputError, match=r"a b%\.json: from line 2 on: .*unexpected field"):
        check.check(url(path), len(good), len(bad))
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(good + bad))
    with pytest.raises(InputError, match=r"a\.json\.gz: from line 1 on: .*unexpected field"):
        check.check(url(packed), 0, packed.stat().st_size)


def test_parquet_has_the_columns_and_types_of_the_first_files(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "b": ["x"]}), path)
    StreamCheck("parquet").check(url(path), 0, 9)
    StreamCheck("parquet", types={"a": "int64", "b": "string"}).check(url(path), 0, 9)
    for check, told in (
        (StreamCheck("parquet", types={"a": "int64"}), "the column 'b', which would be left out"),
        (StreamCheck("parquet", types={"a": "double", "b": "string"}), "'a' of type int64"),
        (StreamCheck("parquet", needed=["value"]), "has no column 'value'"),
    ):
        with pytest.raises(InputError, match=told):
            check.check(url(path), 0, 9)


def test_avro_has_the_schema_of_the_first_file(tmp_path: Path) -> None:
    for name in "ab":
        fields = [{"name": name, "type": "int"}]
        with (tmp_path / f"{name}.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [])
    check = StreamCheck("avro", schema=avro_schema(str(tmp_path / "a.avro")))
    check.check(url(tmp_path / "a.avro"), 0, 9)
    with pytest.raises(InputError, match=r"b\.avro has another schema"):
        check.check(url(tmp_path / "b.avro"), 0, 9)
