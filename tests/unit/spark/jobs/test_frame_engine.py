"""fastprod.spark.jobs.frame_engine: what needs no session."""

from __future__ import annotations

from fastprod.spark.jobs.frame_engine import reader_defaults


def test_text_is_read_as_without_spark_unless_told() -> None:
    csv = reader_defaults("csv", {"Mode": "PERMISSIVE"}, is_tabbed=True)
    assert csv == {
        "Mode": "PERMISSIVE",
        "header": "true",
        "escape": '"',
        "columnPruning": "false",
        "enforceSchema": "false",
        "nullValue": "\0",
        "sep": "\t",
    }
    others = reader_defaults("json", {}, is_tabbed=False)
    assert others == {"mode": "FAILFAST", "columnNameOfCorruptRecord": "_corrupt_record of Spark"}


def test_columns_of_all_files_are_read_unless_told() -> None:
    for kind in ("parquet", "orc"):
        merged = reader_defaults(kind, {}, is_tabbed=False)
        assert merged == {"mergeSchema": "true"}
        given = {"mergeschema": "false"}
        assert reader_defaults(kind, given, is_tabbed=False) == given


def test_a_quote_is_escaped_by_another_one_whatever_it_is() -> None:
    for quote, escape in (("'", "'"), ("", '"')):
        csv = reader_defaults("csv", {"Quote": quote}, is_tabbed=False)
        assert csv["escape"] == escape
