"""fastprod.load.split_reader: every row of a file in exactly one split, whatever the cuts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_splits import FileSplit, split_file
from fastprod.load.input_files import InputError, NeedsSpark, find_files
from fastprod.load.reader_options import ReaderOptions
from fastprod.load.split_reader import SplitReader, check_types, columns_of
from support.oracle import spark_csv

SEPARATE_LINES = ReaderOptions()


def read(
    path: Path,
    kind: str,
    mapping: ColumnMapping,
    split_bytes: int = 1 << 20,
    options: ReaderOptions = SEPARATE_LINES,
) -> list[dict[str, Any]]:
    file = find_files([str(path)])[0]
    types = columns_of([file], kind, options, mapping)
    assert types is not None
    reader = SplitReader(kind, mapping.resolved(list(types)), options, types)
    check_types(reader.mapping, types)
    return [
        row
        for split in split_file(file, kind, split_bytes, by_lines=not options.is_multiline)
        for batch in reader.batches(split)
        for row in batch.to_pylist()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


LINES = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=12)


@given(LINES, st.integers(1, 40), st.booleans())
@settings(max_examples=80)
def test_lines_of_text_are_rows_wherever_the_file_is_cut(
    folder: Path, lines: list[bytes], split_bytes: int, ends_with_newline: bool
) -> None:
    data = b"\n".join(lines) + b"\n" * (ends_with_newline and bool(lines))
    path = folder / "a.txt"
    path.write_bytes(data)
    wanted = re.split(rb"\r\n|\r|\n", data.removeprefix(b"\xef\xbb\xbf"))
    if not wanted[-1]:
        wanted.pop()
    found = [row["value"] for row in read(path, "text", ColumnMapping(), split_bytes)]
    assert found == wanted


FIELDS = st.text("ab,\"' \u00e4", max_size=6)


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=10), st.integers(1, 60))
@settings(max_examples=80)
def test_rows_of_csv_are_those_that_pythons_reader_finds(
    folder: Path, rows: list[tuple[str, str]], split_bytes: int
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("first", "second"), *rows])
    path = folder / "a.csv"
    path.write_bytes(text.getvalue().encode())
    mapping = ColumnMapping(value="second", key="first")
    found = read(path, "csv", mapping, split_bytes)
    decoded = [tuple((row[name] or b"").decode() for name in ("key", "value")) for row in found]
    assert decoded == rows


# What files are damaged by, and what they are made of.
PIECES = st.sampled_from(
    [*("a", "b", ",", ",", '"', '"', '""', ',"x",', '"y"\n', "\u00e4", "\0", " ", "\t", "\udcff")]
    + [*("\n", "\n", "\n\n", "\r\n", "\r", " \n")]
    + ["a,b\n"] * 4
)


@given(st.lists(PIECES, max_size=25), st.sampled_from(",\t"), st.sampled_from(["", "a"]))
@settings(max_examples=100)
def test_rows_of_csv_are_those_of_sparks_reader_or_refused_wherever_the_file_is_cut(
    folder: Path, pieces: list[str], separator: str, null_value: str
) -> None:
    data = "".join(pieces).replace(",", separator).encode(errors="surrogateescape")
    path = folder / "any.csv"
    path.write_bytes(b"k,v\n".replace(b",", separator.encode()) + data)
    wanted = spark_csv.rows(path.read_bytes(), separator, null_value=null_value)
    options = ReaderOptions(separator=separator, null_value=null_value)
    for split_bytes in (1, 2, 3, 7, 1000):
        try:
            rows = read(path, "csv", ColumnMapping("v", "k"), split_bytes, options)
        except InputError:
            assert wanted is None
        else:
            found = [
                tuple(
                    None if row[name] is None else row[name].decode() for name in ("key", "value")
                )
                for row in rows
            ]
            assert wanted is not None
            assert found == wanted[1:]


@pytest.mark.parametrize("split_bytes", [1000, 1 << 20])
@pytest.mark.parametrize("line", ['"', '3,"x', '3,"x"y', '3,"x" ', '"3""'])
def test_quotes_that_spark_takes_otherwise_are_refused_with_their_line(
    tmp_path: Path, line: str, split_bytes: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,v\n" + "1,x\n" * 500 + f"{line}\n" + '1,"x"\n' * 500)
    with pytest.raises(InputError, match=r"a\.csv.*: line 502: .*; give -O multiLine=true"):
        read(path, "csv", ColumnMapping("v"), split_bytes)


@pytest.mark.parametrize(
    ("name", "row"),
    [("a.csv", "{0}"), ("a.json", '{{"v": "{0}"}}'), ("a.txt", "{0}")],
    ids=["csv", "json", "text"],
)
def test_rows_may_be_longer_than_what_is_read_at_once(tmp_path: Path, name: str, row: str) -> None:
    path = tmp_path / name
    lines = [row.format("x" * size) for size in (1, 5 << 20, 2, 9 << 20, 3)]
    path.write_text("\n".join((["v"] if name == "a.csv" else []) + lines))
    kind = name[2:].replace("txt", "text")
    for split_bytes in (1 << 20, 1 << 30):
        sizes = [len(found["value"]) for found in read(path, kind, ColumnMapping(), split_bytes)]
        assert sizes == ([1, 5 << 20, 2, 9 << 20, 3] if kind != "text" else [len(x) for x in lines])


@pytest.mark.parametrize("text", ['{"v":\n"x"}', '{"v": "x"} {"v": "y"}', '{"v": "x"\n} {"v":"y"}'])
def test_an_object_of_json_that_is_no_line_is_refused_wherever_the_file_is_cut(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"v": "a"}\n' + f"{text}\n")
    for split_bytes in (12, 1000):
        with pytest.raises(InputError, match=r"line [12]"):
            read(path, "json", ColumnMapping(), split_bytes)


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=5)), min_size=1), st.integers(1, 60))
@settings(max_examples=50)
def test_lines_of_json_are_rows_wherever_the_file_is_cut(
    folder: Path, rows: list[tuple[int, str]], split_bytes: int
) -> None:
    path = folder / "a.jsonl"
    lines = [json.dumps({"n": number, "t": text, "more": {"x": 1}}) for number, text in rows]
    path.write_text("\n".join(lines))
    found = read(path, "json", ColumnMapping(value="t", key="n"), split_bytes)
    assert [(row["key"], row["value"]) for row in found] == [(str(n), text) for n, text in rows]


def test_row_groups_have_typed_columns_and_header_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table(
        {
            "v": pyarrow.array([b"a", None, b"c"]),
            "p": [0, None, 1],
            "ms": [1, 2, None],
            "flag": [True, None, False],
        }
    )
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    mapping = ColumnMapping("v", "p", "p", "ms", (), (("H", "flag"),))
    rows = read(path, "parquet", mapping, 1)
    assert [row["value"] for row in rows] == [b"a", None, b"c"]
    assert [row["key"] for row in rows] == ["0", None, "1"]
    assert [row["partition"] for row in rows] == [0, None, 1]
    assert [row["header.0"] for row in rows] == ["true", None, "false"]
    assert [row["timestamp"] and row["timestamp"].microsecond for row in rows] == [1000, 2000, None]


def test_a_time_too_large_for_microseconds_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"v": ["a"], "ms": [10**17]}), path)
    with pytest.raises(InputError, match=r"row groups 0 to 0 .* out of bounds"):
        read(path, "parquet", ColumnMapping("v", timestamp="ms"))


def test_times_without_a_zone_are_sparks_but_not_its_older_form_of_instants(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    mapping = ColumnMapping("v", timestamp="t")
    for zone, is_int96 in ((None, True), ("Asia/Tokyo", False), (None, False)):
        times = pyarrow.array([5000], pyarrow.timestamp("us", zone))
        table = pyarrow.table({"v": ["a"], "t": times})
        pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=is_int96)
        if zone or is_int96:
            assert read(path, "parquet", mapping)[0]["timestamp"].microsecond == 5000
        else:
            with pytest.raises(NeedsSpark, match="'t' have no time zone"):
                read(path, "parquet", mapping)


def test_an_instant_of_the_older_form_is_kept_where_nanoseconds_wrap_around(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    instants = [datetime(2600, 1, 1), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)]
    table = pyarrow.table({"v": ["a"] * 3, "t": pyarrow.array(instants, pyarrow.timestamp("us"))})
    pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    rows = read(path, "parquet", ColumnMapping("v", timestamp="t"))
    assert [row["timestamp"] for row in rows] == instants


def test_an_instant_of_the_older_form_that_no_timestamp_holds_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pyarrow.array([10**13], pyarrow.timestamp("s"))
    table = pyarrow.table({"v": ["a"], "t": times})
    pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(InputError, match="out of bounds"):
        read(path, "parquet", ColumnMapping("v", timestamp="t"))


def test_an_empty_field_is_null_but_in_quotes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,\n2,""\n3,NA\n4,"NA"\n')
    for null_value, wanted in (("", [None, b"", b"NA", b"NA"]), ("NA", [None, b"", None, None])):
        options = ReaderOptions(null_value=null_value)
        rows = read(path, "csv", ColumnMapping(value="b"), options=options)
        assert [row["value"] for row in rows] == wanted


def test_columns_of_one_name_are_numbered_as_spark_does(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n \nA,a,,b\n1,2,3,4\n")
    for name, value in (("A0", b"1"), ("a1", b"2"), ("_c2", b"3"), ("b", b"4")):
        assert read(path, "csv", ColumnMapping(value=name), 3) == [{"value": value}]
    with pytest.raises(InputError, match="no column 'a'; there are A0, a1, _c2, b"):
        read(path, "csv", ColumnMapping(value="a"))


def test_a_header_that_ends_with_a_carriage_return_alone_is_sparks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"_c0,_c1\r1,x\r2,y\r")
    with pytest.raises(NeedsSpark, match=r"lines end with \\r alone"):
        read(path, "csv", ColumnMapping(value="_c1"))
    rows = read(path, "csv", ColumnMapping(value="_c1"), options=ReaderOptions(has_header=False))
    assert [row["value"] for row in rows] == [b"_c1", b"x", b"y"]


def test_a_quoted_line_end_is_part_of_a_field_if_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x\ny"\n2,z\n')
    options = ReaderOptions(is_multiline=True)
    rows = read(path, "csv", ColumnMapping(value="b"), 1, options)
    assert [row["value"] for row in rows] == [b"x\ny", b"z"]


def test_packed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a;b\n1;x\n"))
    options = ReaderOptions(separator=";")
    assert read(path, "csv", ColumnMapping(value="b"), options=options) == [{"value": b"x"}]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, name: str) -> None:
    data = b"\xef\xbb\xbfx\ny\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    rows = read(tmp_path / name, "text", ColumnMapping())
    assert [row["value"] for row in rows] == [b"x", b"y"]


def test_what_looks_like_a_time_in_json_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": "2026-01-01T00:00:00"}\n')
    assert read(path, "json", ColumnMapping()) == [{"value": "2026-01-01T00:00:00"}]


def test_times_without_a_zone_in_a_later_file_are_refused(tmp_path: Path) -> None:
    mapping = ColumnMapping("v", key="", timestamp="t")
    path = tmp_path / "b.parquet"
    times = pyarrow.array([5], pyarrow.timestamp("us"))
    pyarrow.parquet.write_table(pyarrow.table({"v": ["a"], "t": times}), path)
    split = split_file(find_files([str(path)])[0], "parquet")[0]
    with pytest.raises(InputError, match=r"b\.parquet, row groups 0 to 0: .* have no time zone"):
        list(SplitReader("parquet", mapping).batches(split))


def test_of_a_row_group_only_a_part_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = 40_000
    with pyarrow.parquet.ParquetWriter(
        path, pyarrow.schema([("v", pyarrow.binary())]), use_dictionary=False, compression="none"
    ) as writer:
        writer.write_table(pyarrow.table({"v": [os.urandom(1000) for _ in range(rows)]}))
    split = split_file(find_files([str(path)])[0], "parquet")[0]
    batches = SplitReader("parquet", ColumnMapping("v", key="")).batches(split)
    before = pyarrow.total_allocated_bytes()
    held = []
    for batch in batches:
        held.append(pyarrow.total_allocated_bytes() - before - batch.nbytes)
        del batch
    assert max(held) < rows * 1000 / 2, held


def test_of_large_rows_few_are_in_memory_and_of_small_ones_many(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    groups = [[b"s"] * 20_000, [], [os.urandom(200_000) for _ in range(400)]]
    schema = pyarrow.schema([("v", pyarrow.binary()), ("other", pyarrow.binary())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for values in groups:
            columns = {"v": values, "other": [b"x" * 1_000] * len(values)}
            writer.write_table(pyarrow.table(columns, schema))
    reader = SplitReader("parquet", ColumnMapping("v", key=""))
    file = find_files([str(path)])[0]
    small, large = (
        list(reader.batches(FileSplit(file, "row_groups", start, stop, 1)))
        for start, stop in ((0, 2), (2, 3))
    )
    assert [each.num_rows for each in small] == [16_384, 20_000 - 16_384]
    assert sum(each.num_rows for each in large) == 400
    assert max(each.nbytes for each in large) <= 20_000_000


CHANGES: dict[str, Callable[[Path, bytes], object]] = {
    "truncated": lambda path, data: os.truncate(path, len(data) // 2),
    "emptied": lambda path, data: os.truncate(path, 0),
    "grown": lambda path, data: path.write_bytes(data + data),
    "deleted": lambda path, data: path.unlink(),
    "replaced": lambda path, data: os.utime(path, ns=(0, path.stat().st_mtime_ns + 1)),
}


def file_of(path: Path, kind: str) -> bytes:
    """A file with the column v and two rows; its bytes."""
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"v": ["x", "y"]}), path, row_group_size=1)
    else:
        path.write_text({"csv": "v\nx\ny\n", "json": '{"v":"x"}\n' * 2, "text": "x\ny\n"}[kind])
    return path.read_bytes()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "text"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_file_that_has_changed_since_it_was_cut_is_refused(
    tmp_path: Path, kind: str, change: str, when: str
) -> None:
    path = tmp_path / "a"
    data = file_of(path, kind)
    column = "value" if kind == "text" else "v"
    reader = SplitReader(
        kind, ColumnMapping(value=column, key=""), json_types={"v": pyarrow.string()}
    )
    batches = reader.batches(split_file(find_files([str(path)])[0], kind)[0])
    if when == "meanwhile":
        next(batches)
    CHANGES[change](path, data)
    told = "is not there any more" if change == "deleted" else "has changed"
    with pytest.raises(InputError, match=f"{path}.* {told}.*{len(data):,} bytes of 20"):
        list(batches)


def test_a_file_without_the_column_is_named_with_those_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    _, second = find_files([str(tmp_path)])
    reader = SplitReader("csv", ColumnMapping(value="b", key=""))
    with pytest.raises(InputError, match=r"b\.csv.*no column 'b'; there are a, c"):
        list(reader.batches(split_file(second, "csv")[0]))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"v": "x"}\n{"v": \n')
    file = find_files([str(tmp_path)])[0]
    reader = SplitReader(
        "json", ColumnMapping(value="v", key=""), json_types={"v": pyarrow.string()}
    )
    with pytest.raises(InputError, match=r"a\.jsonl.*: line 2 is not one JSON object"):
        list(reader.batches(split_file(file, "json")[0]))


def test_columns_whose_text_is_sparks_alone_are_refused() -> None:
    types = {"v": pyarrow.float64(), "s": pyarrow.string()}
    with pytest.raises(NeedsSpark, match="column 'v' is of type double"):
        check_types(ColumnMapping(value="v", key=""), types)
    with pytest.raises(NeedsSpark, match="--partition-column"):
        check_types(ColumnMapping(value="s", key="", partition="s"), types)
    with pytest.raises(NeedsSpark, match="--timestamp-column"):
        check_types(ColumnMapping(value="s", key="", timestamp="s"), types)
