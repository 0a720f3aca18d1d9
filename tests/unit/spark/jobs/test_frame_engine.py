"""fastprod.spark.jobs.frame_engine: what needs no session."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import fastavro

from fastprod.load.input_files import find_files
from fastprod.spark.jobs.frame_engine import reader_defaults, shared_schema


def test_text_is_read_as_without_spark_unless_told() -> None:
    csv = reader_defaults("csv", {"Mode": "PERMISSIVE"}, is_tabbed=True, has_schema=False)
    assert csv == {
        "Mode": "PERMISSIVE",
        "header": "true",
        "escape": '"',
        "columnPruning": "false",
        "enforceSchema": "false",
        "sep": "\t",
    }
    named = reader_defaults("csv", {}, is_tabbed=False, has_schema=True)
    assert "enforceSchema" not in named
    assert named["mode"] == "FAILFAST"
    assert reader_defaults("json", {}, is_tabbed=False, has_schema=False) == {"mode": "FAILFAST"}


def test_columns_of_all_files_are_read_unless_told() -> None:
    for kind in ("parquet", "orc"):
        merged = reader_defaults(kind, {}, is_tabbed=False, has_schema=False)
        assert merged == {"mergeSchema": "true"}
        given = {"mergeschema": "false"}
        assert reader_defaults(kind, given, is_tabbed=False, has_schema=False) == given
        assert reader_defaults(kind, {}, is_tabbed=False, has_schema=True) == {}


def test_a_quote_is_escaped_by_another_one_whatever_it_is() -> None:
    for quote, escape in (("'", "'"), ("", '"')):
        csv = reader_defaults("csv", {"Quote": quote}, is_tabbed=False, has_schema=False)
        assert csv["escape"] == escape


def test_avro_is_read_by_the_columns_of_the_file_that_has_all(tmp_path: Path) -> None:
    for name, columns in (("a.avro", ("value",)), ("b[1].avro", ("value", "key"))):
        fields = [{"name": column, "type": "string"} for column in columns]
        with (tmp_path / name).open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [])
    files, spark = find_files([str(tmp_path)]), MagicMock()
    reader = spark.read.format.return_value.options.return_value
    assert shared_schema(spark, "avro", files, {"mode": "x"}) is reader.load.return_value.schema
    reader.load.assert_called_once_with([rf"{tmp_path}/b\[1\].avro"])
    spark.read.format.return_value.options.assert_called_once_with(mode="x")
    assert shared_schema(spark, "avro", files[:1], {}) is None
    assert shared_schema(spark, "avro", files, {"AvroSchema": "{}"}) is None
    assert shared_schema(spark, "orc", files, {}) is None
