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
from fastprod.load.stream_check import SparkFile, StreamCheck


def url(path: Path) -> str:
    return path.as_uri()


def test_parts_of_text_are_looked_at_where_they_are(tmp_path: Path) -> None:
    types = {"a": pyarrow.int64()}
    text = text_check("json", {}, types=types, knows_all=True)
    path = tmp_path / "a b%.json"
    good, bad = b'{"a": 1}\n', b'{"b": 2}\n'
    path.write_bytes(good + bad)
    check = StreamCheck("json", text)
    check.check(SparkFile(url(path), 0, len(good)))
    with pytest.raises(InputError, match=r"a b%\.json: from line 2 on: .*unexpected field"):
        check.check(SparkFile(url(path), len(good), len(bad)))
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(good + bad))
    with pytest.raises(InputError, match=r"a\.json\.gz: from line 1 on: .*unexpected field"):
        check.check(SparkFile(url(packed), 0, packed.stat().st_size))


def test_parquet_has_the_columns_and_types_of_the_first_files(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "b": ["x"]}), path)
    StreamCheck("parquet").check(SparkFile(url(path), 0, 9))
    StreamCheck("parquet", types={"a": "int64", "b": "string"}).check(SparkFile(url(path), 0, 9))
    for check, told in (
        (StreamCheck("parquet", types={"a": "int64"}), "the column 'b', which would be left out"),
        (StreamCheck("parquet", types={"a": "double", "b": "string"}), "'a' of type int64"),
        (StreamCheck("parquet", needed=["value"]), "has no column 'value'"),
    ):
        with pytest.raises(InputError, match=told):
            check.check(SparkFile(url(path), 0, 9))


def test_avro_has_the_schema_of_the_first_file(tmp_path: Path) -> None:
    for name in "ab":
        fields = [{"name": name, "type": "int"}]
        with (tmp_path / f"{name}.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [])
    check = StreamCheck("avro", schema=avro_schema(str(tmp_path / "a.avro")))
    check.check(SparkFile(url(tmp_path / "a.avro"), 0, 9))
    with pytest.raises(InputError, match=r"b\.avro has another schema"):
        check.check(SparkFile(url(tmp_path / "b.avro"), 0, 9))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.txt.lz4", "may pass over a whole file"),
        ("a.txt.xz", "is not unpacked here"),
        ("a[1].txt", "reads the files that come with it several times"),
        ("a.csv", "is none of text by its name"),
    ],
)
def test_a_file_that_spark_would_lose_or_double_is_refused(
    tmp_path: Path, name: str, told: str
) -> None:
    (tmp_path / name).write_text("x\n")
    with pytest.raises(InputError, match=told):
        StreamCheck("text", by_name=True).check(SparkFile(url(tmp_path / name), 0, 2))
    if name == "a.csv":
        StreamCheck("text").check(SparkFile(url(tmp_path / name), 0, 2))


def test_a_file_that_is_still_being_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    StreamCheck("text").check(SparkFile(url(path), 0, 2, 2))
    path.write_text("x\ny\n")
    with pytest.raises(InputError, match="had 2 bytes when Spark found it, and has 4 now"):
        StreamCheck("text").check(SparkFile(url(path), 0, 2, 2))
    path.unlink()
    with pytest.raises(InputError, match=r"a\.txt cannot be read: No such file"):
        StreamCheck("text").check(SparkFile(url(path), 0, 2, 2))
