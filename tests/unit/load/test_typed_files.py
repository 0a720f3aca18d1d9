"""fastprod.load.typed_files: files of Parquet and ORC of which Spark loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest

from fastprod.load.input_files import InputError, find_files
from fastprod.load.typed_files import (
    SPARKS_TYPE,
    check_typed_files,
    column_names,
    typed_columns,
)

Columns = dict[str, Any]


def write(folder: Path, *tables: Columns, kind: str = "parquet") -> None:
    for index, columns in enumerate(tables):
        path = str(folder / f"{index}.{kind}")
        if kind == "orc":
            pyarrow.orc.write_table(pyarrow.table(columns), path)
        else:
            pyarrow.parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_may_be_missing_and_in_any_order(tmp_path: Path, kind: str) -> None:
    nested = [{"x": [{"y": 1}]}]
    write(tmp_path, {"a": [1], "b": nested}, {"b": nested, "c": ["x"], "a": [2]}, kind=kind)
    (tmp_path / f"empty.{kind}").touch()
    files = find_files([str(tmp_path)])
    check_typed_files(files, kind, needed=["a", "b"])


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"a": [1]}, {"A": [1]}, "the column 'A' and "),
        ({"s": [{"x": 1}]}, {"s": [{"X": 1}]}, r"the column 's\.X' and "),
        ({"a": [1], "A": [1]}, {}, "the column 'A' and "),
        ({"a": pyarrow.array([1], pyarrow.duration("us"))}, {}, r"'a' is of type duration\[us\]"),
        (
            {"a": pyarrow.array([[1]], pyarrow.list_(pyarrow.duration("us")))},
            {},
            "of type duration",
        ),
        ({"a": [1]}, {"b": [1]}, "1.parquet has no column 'a'"),
    ],
)
def test_what_spark_would_lose_is_refused_by_the_file(
    tmp_path: Path, one: Columns, other: Columns, told: str
) -> None:
    write(tmp_path, one, *([other] if other else []))
    with pytest.raises(InputError, match=told):
        check_typed_files(find_files([str(tmp_path)]), "parquet", needed=list(one)[:1])


def test_columns_of_orc_that_are_numbered_belong_to_one_file(tmp_path: Path) -> None:
    write(tmp_path, {"_col0": [1]}, {"_col0": [1]}, kind="orc")
    files = find_files([str(tmp_path)])
    check_typed_files(files[:1], "orc")
    with pytest.raises(InputError, match=r"named by their numbers \(_col0\)"):
        check_typed_files(files, "orc")


def test_columns_that_nobody_asked_for_are_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path, {"a": [1], "d": pyarrow.array([1], pyarrow.duration("us"))})
    files = find_files([str(tmp_path)])
    check_typed_files(files, "parquet", named=["A"])
    assert column_names(files[0].path, "parquet") == ["a", "d"]


def test_later_files_have_the_columns_of_the_first_and_their_types(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    times = pyarrow.array([1000], pyarrow.timestamp("us", "UTC"))
    write(tmp_path / "a", {"t": times, "s": [{"x": "y"}], "n": [1]})
    types = typed_columns(find_files([str(tmp_path / "a")]), "parquet")
    assert types == {"t": "timestamp", "s": "struct", "s.x": "string", "n": "int64"}
    for columns, told in (
        ({"t": times.cast(pyarrow.timestamp("ms", "UTC")), "s": [{"x": "z"}]}, None),
        ({"t": times.cast(pyarrow.timestamp("us"))}, "'t' of type timestamp without zone"),
        ({"n": pyarrow.array([1], pyarrow.int32())}, "'n' of type int32, and files before it int"),
        ({"s": [{"x": "y", "z": 1}]}, r"the column 's\.z', which would be left out"),
        ({"more": [1]}, "the column 'more', which would be left out"),
    ):
        write(tmp_path, columns)
        files = find_files([str(tmp_path / "0.parquet")])
        if told is None:
            check_typed_files(files, "parquet", types=types)
        else:
            with pytest.raises(InputError, match=told):
                check_typed_files(files, "parquet", types=types)
    with pytest.raises(InputError, match="'more', which would be left out"):
        check_typed_files(files, "parquet", known=["t"])


def test_times_of_orc_are_what_spark_has_marked_them_as(tmp_path: Path) -> None:
    def column(kind: pyarrow.DataType, mark: str | None = None) -> pyarrow.Table:
        metadata = None if mark is None else {SPARKS_TYPE: mark.encode()}
        found = pyarrow.field("t", pyarrow.list_(pyarrow.field("item", kind, metadata=metadata)))
        return pyarrow.table([pyarrow.array([[1]], found.type)], pyarrow.schema([found]))

    time, number = pyarrow.timestamp("ns"), pyarrow.int64()
    told = {}
    for index, (kind, mark) in enumerate(
        [(time, None), (time, "timestamp"), (number, "timestamp_ntz"), (number, "bigint")]
    ):
        pyarrow.orc.write_table(column(kind, mark), str(tmp_path / f"{index}.orc"))
    for file in find_files([str(tmp_path)]):
        told[Path(file.path).stem] = typed_columns([file], "orc")["t.0"]
    assert list(told.values()) == [
        "timestamp without zone",
        "timestamp",
        "timestamp_ntz",
        "int64",
    ]


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a\.orc cannot be read as orc"):
        check_typed_files(find_files([str(tmp_path)]), "orc")
