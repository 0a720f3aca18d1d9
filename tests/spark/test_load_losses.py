"""`fastprod spark-load` by Spark's readers: what they would lose without a word is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.input_files import InputError
from support.spark.file_reading import read_objects, read_values

FOLDERS_ARE_TEXT = "spark.sql.sources.partitionColumnTypeInference.enabled"


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    """Those of the commands' own sessions."""
    spark.conf.set(FOLDERS_ARE_TEXT, "false")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.unset(FOLDERS_ARE_TEXT)
    spark.conf.unset("spark.sql.session.timeZone")


JSON = {
    "an object without fields": '{"a": {}, "b": 1}\n',
    "a field without a name": '{"": 5, "b": 1}\n',
    "a second object": '{"b": 1}{"b": 2}\n',
    "text behind an object": '{"b": 1} and more\n',
    "names that differ in case": '{"b": 1}\n{"B": 2}\n',
    "numbers and texts": '{"b": 1}\n{"b": "x"}\n',
    "a rounded number": '{"b": 1.5}\n{"b": 9007199254740993}\n',
    "half an object": '{"b": 1}\n{"b"\n',
    "half a pair": '{"b": "\\ud800"}\n',
}


@pytest.mark.parametrize("name", list(JSON))
def test_json_that_would_lose_something_is_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.json").write_text(JSON[name])
    for query in ({}, {"where": "true"}):
        with pytest.raises(InputError, match=r"a\.json: .*--schema"):
            read_objects(spark, tmp_path, **query)


def test_a_schema_has_spark_make_text_of_values_of_several_types(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"b": 1, "e": {}}\n{"b": "x"}\n')
    assert read_objects(spark, tmp_path, schema="b string") == [{"b": "1"}, {"b": "x"}]
    raw = ColumnMapping(value="b", key="")
    assert read_values(spark, tmp_path, "spark", raw) == [b"1", b"x"]


def test_a_column_with_sparks_name_for_damaged_rows_is_a_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"_corrupt_record": "x", "b": true}\n')
    assert read_objects(spark, tmp_path) == [{"_corrupt_record": "x", "b": True}]


def test_a_line_end_in_quotes_is_no_end_of_a_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('k,v\n1,"x\ny,z"\n')
    with pytest.raises(InputError, match=r"a\.csv: line 2: a quoted field does not end"):
        read_objects(spark, tmp_path)
    found = read_objects(spark, tmp_path, reader_options={"multiLine": "true"})
    assert found == [{"k": "1", "v": "x\ny,z"}]


def test_columns_of_csv_are_told_by_the_header_with_a_schema_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("k,v\n1,x\n")
    assert read_objects(spark, tmp_path, schema="k int, v string") == [{"k": 1, "v": "x"}]
    with pytest.raises(Exception, match="CSV header does not conform"):
        read_objects(spark, tmp_path, schema="v string, k string")


@pytest.mark.parametrize("engine", ["direct", "spark"])
def test_an_empty_text_in_quotes_is_no_null(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "a.csv").write_text('k,v\n1,""\n2,\n')
    for options in ({}, {"nullValue": ""}):
        found = read_values(
            spark, tmp_path, engine, ColumnMapping(value="v", key=""), reader_options=options
        )
        assert found == [b"", None]


def test_a_row_of_white_space_is_one_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\nx\n \n")
    mapping = ColumnMapping(value="v")
    assert read_values(spark, tmp_path, "direct", mapping) == [b"x", b" "]
    with pytest.raises(InputError, match="line 3 has nothing but white space"):
        read_values(spark, tmp_path, "spark", mapping)


def test_timestamps_in_json_have_their_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 123456)
    columns = {
        "t": pyarrow.array([moment], pyarrow.timestamp("us", "UTC")),
        "n": pyarrow.array([moment], pyarrow.timestamp("us")),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    assert read_objects(spark, tmp_path) == [
        {"t": "2020-01-02T03:04:05.123456Z", "n": "2020-01-02T03:04:05.123456"}
    ]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_a_folder_does_not_replace_a_column_of_files(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "Key=7").mkdir()
    path = tmp_path / f"Key=7/a.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"key": ["1"], "value": ["x"]}), path)
    else:
        path.write_text("key,value\n1,x\n" if kind == "csv" else '{"key": "1", "value": "x"}\n')
    with pytest.raises(InputError, match="files have a column 'Key' too"):
        read_objects(spark, tmp_path)
    found = read_objects(spark, tmp_path, reader_options={"recursiveFileLookup": "true"})
    assert found == [{"key": "1", "value": "x"}]


def test_names_of_folders_are_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "key=007").mkdir()
    (tmp_path / "key=007/a.csv").write_text("value\nx\n")
    assert read_objects(spark, tmp_path) == [{"key": "007", "value": "x"}]


@pytest.mark.parametrize("shape", ["plain", "list", "map", "struct"])
def test_old_times_of_orc_are_refused(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    for year in (2020, 1500):
        day = date(year, 1, 2)
        column = {
            "plain": pyarrow.array([None, day]),
            "list": pyarrow.array([None, [None, day]]),
            "map": pyarrow.array([[("x", day)]], pyarrow.map_(pyarrow.string(), pyarrow.date32())),
            "struct": pyarrow.array([{"x": None}, {"x": day}]),
        }[shape]
        pyarrow.orc.write_table(pyarrow.table({"v w": column}), str(tmp_path / "a.orc"))
        if year == 2020:
            assert "2020-01-02" in str(read_objects(spark, tmp_path))
        else:
            with pytest.raises(
                Exception, match=r"a\.orc: column 'v w' has a time before 1582-10-15"
            ):
                read_objects(spark, tmp_path)


def test_times_of_orc_have_a_zone_only_where_they_are_written_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    noon = datetime(2024, 7, 1, 12, 0, 0, 123456)
    times = {
        "v w": pyarrow.array([noon, None]),
        "s": pyarrow.array([{"x": noon, "z": [noon]}, None]),
        "m": pyarrow.array([[("k", noon)], None], pyarrow.map_("string", pyarrow.timestamp("us"))),
        "z": pyarrow.array([noon, None], pyarrow.timestamp("us", "UTC")),
    }
    pyarrow.orc.write_table(pyarrow.table(times), str(tmp_path / "a.orc"))
    bare = "2024-07-01T12:00:00.123456"
    row = {"v w": bare, "s": {"x": bare, "z": [bare]}, "m": {"k": bare}, "z": f"{bare}Z"}
    assert read_objects(spark, tmp_path) == [row, {}]
    found = read_values(spark, tmp_path, "spark", ColumnMapping(value="v w", key=""))
    assert found == [b"2024-07-01 12:00:00.123456", None]
    assert read_objects(spark, tmp_path, schema="`v w` timestamp")[0] == {"v w": f"{bare}Z"}


def test_times_that_spark_wrote_as_orc_keep_their_zone(spark: SparkSession, tmp_path: Path) -> None:
    times = "timestamp'2024-07-01 12:00:00Z' z, timestamp_ntz'2024-07-01 12:00:00' n"
    spark.sql(f"select {times}").coalesce(1).write.mode("append").orc(str(tmp_path))
    row = {"z": "2024-07-01T12:00:00.000000Z", "n": "2024-07-01T12:00:00.000000"}
    assert read_objects(spark, tmp_path, kind="orc") == [row]
    pyarrow.orc.write_table(
        pyarrow.table({"z": pyarrow.array([datetime(2024, 7, 1)])}), str(tmp_path / "z.orc")
    )
    with pytest.raises(InputError, match="the column 'z', one of them as a time without zone"):
        read_objects(spark, tmp_path)


def test_times_of_orc_by_other_clocks_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    zone: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    javas, clocks = zone.getDefault(), zone.getTimeZone("America/New_York")
    times = spark.sql("select timestamp'2024-07-01 12:00:00Z' z").coalesce(1)
    try:
        zone.setDefault(clocks)
        times.write.mode("append").orc(str(tmp_path))
    finally:
        zone.setDefault(javas)
    for schema in (None, "z timestamp"):
        with pytest.raises(
            InputError, match=r"by the clocks of America/New_York, .*user\.timezone"
        ):
            read_objects(spark, tmp_path, schema=schema, kind="orc")


def test_times_of_orc_in_a_session_of_other_clocks_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    pyarrow.orc.write_table(
        pyarrow.table({"z": pyarrow.array([datetime(2024, 7, 1)])}), str(tmp_path / "z.orc")
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    with pytest.raises(InputError, match=r"timeZone = America/New_York, and Java runs in"):
        read_objects(spark, tmp_path)


TYPED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "other case": ({"value": ["x"]}, {"Value": ["y"]}, "which are one to Spark"),
    "no value": ({"value": ["x"]}, {"w": ["y"]}, "has no column 'value'"),
    "numbered": ({"_col0": [1], "_col1": [2]}, {"_col1": [1], "_col0": [2]}, "their numbers"),
}


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize("name", list(TYPED))
def test_files_that_are_not_alike_are_refused(
    spark: SparkSession, tmp_path: Path, name: str, kind: str
) -> None:
    *tables, told = TYPED[name]
    write: Callable[..., object] = (
        pyarrow.orc.write_table if kind == "orc" else pyarrow.parquet.write_table
    )
    for index, columns in enumerate(tables):
        write(pyarrow.table(columns), str(tmp_path / f"{index}.{kind}"))
    if name == "numbered" and kind == "parquet":
        return
    value = "_col1" if name == "numbered" else "value"
    with pytest.raises(InputError, match=told):
        read_values(spark, tmp_path, "spark", ColumnMapping(value=value, key=""))


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_column_of_the_schema_has_to_be_in_a_file(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    if kind == "json":
        (tmp_path / "a.json").write_text('{"value": "x"}\n')
    else:
        pyarrow.parquet.write_table(pyarrow.table({"value": ["x"]}), tmp_path / "a.parquet")
    assert read_objects(spark, tmp_path, schema="value string") == [{"value": "x"}]
    with pytest.raises(InputError, match="--schema: no file has the column 'valeu'"):
        read_objects(spark, tmp_path, schema="valeu string")


def test_text_that_is_not_utf_8_becomes_no_json(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x\n\xff\n")
    with pytest.raises(InputError, match=r"a\.txt: line 2 is not UTF-8"):
        read_objects(spark, tmp_path)


def test_what_spark_makes_of_a_file_is_there_by_its_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"b": 1}{"b": 2}\n')
    found = read_objects(spark, tmp_path, reader_options={"mode": "PERMISSIVE"})
    assert json.dumps(found, default=int) == '[{"b": 1}]'
