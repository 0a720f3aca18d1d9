"""fastprod.load.csv_reader: the same rows, or the same refusal, however the file is read."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.load import csv_reader
from fastprod.load.csv_reader import csv_names, read_csv
from fastprod.load.file_splits import split_file
from fastprod.load.input_files import InputError, NeedsSpark, find_files
from fastprod.load.line_blocks import line_blocks
from fastprod.load.reader_options import ReaderOptions
from fastprod.load.record_blocks import record_blocks
from support.oracle import spark_csv

Rows = list[tuple[str | None, ...]]

PIECES = st.sampled_from(
    [
        *(
            "a",
            ",",
            ",",
            '"',
            '"',
            '""',
            ',"x",',
            '"y"\n',
            "\u00e4",
            "\0",
            " ",
            "\t",
            "\udcff",
            "\ufeff",
        )
    ]
    + [*("\n", "\n", "\n\n", "\r\n", "\r", " \n")]
    + ["a,b\n"] * 4
)


def read(path: Path, options: ReaderOptions, split_bytes: int) -> Rows | None:
    """All rows with all columns; None: the file is refused."""
    try:
        names = csv_names(str(path), options) or []
        splits = split_file(
            find_files([str(path)])[0], "csv", split_bytes, by_lines=not options.is_multiline
        )
        batches = [batch for split in splits for batch in read_csv(split, options, names)]
    except InputError:
        return None
    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    return [tuple(None if each is None else each.decode() for each in row.values()) for row in rows]


@given(
    st.lists(PIECES, max_size=25),
    st.sampled_from(",\t "),
    st.sampled_from(['"', "'", ""]),
    st.integers(1, 12),
    st.integers(1, 12),
)
@settings(max_examples=300)
def test_neither_splits_nor_blocks_make_a_difference(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[str],
    separator: str,
    quote: str,
    split_bytes: int,
    block_bytes: int,
) -> None:
    data = "".join(pieces).replace(",", separator).replace('"', quote or '"')
    # Which is refused wherever it is, also in a line that is passed over.
    data = data if quote else data.replace("\0", "")
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(data.encode(errors="surrogateescape"))
    options = ReaderOptions(False, separator, quote)
    small = functools.partial(line_blocks, block_bytes=block_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "line_blocks", _of_size(small))
        found = read(path, options, split_bytes)
    assert found == spark_csv.rows(path.read_bytes(), separator, quote, has_header=False)


def _of_size(small: Any) -> Any:
    def blocks(*range_of_file: Any, **_: int) -> Any:
        return small(*range_of_file)

    return blocks


@given(st.lists(PIECES, max_size=20), st.integers(1, 12), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=200)
def test_with_line_ends_in_quotes_blocks_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], block_bytes: int, ending: str
) -> None:
    data = "a,b\n" + "".join(pieces)
    path = tmp_path_factory.getbasetemp() / "multiline.csv"
    path.write_bytes(data.replace("\n", ending).encode(errors="surrogateescape"))
    options = ReaderOptions(False, is_multiline=True)
    whole = read(path, options, 1)
    small = functools.partial(record_blocks, block_bytes=block_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "record_blocks", _of_size(small))
        assert read(path, options, 1) == whole


def test_a_line_end_in_quotes_stays_as_it_is_but_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    options = ReaderOptions(is_multiline=True)
    path.write_bytes(b'"k\r\ny",v\r\n1,"x\r\ny\nz"\r\n\r\n2,"w\r\n"')
    assert csv_names(str(path), options) == ["k\ny", "v"]
    assert read(path, options, 1) == [("1", "x\r\ny\nz"), ("2", "w\r\n")]
    path.write_bytes(b'k,v\n1,"x\r\ny\rz"\n')
    assert read(path, options, 1) == [("1", "x\r\ny\rz")]
    for data in (b"k,v\n1,x\r\n", b"k,v\r\n1,x\n", b"k,v\n1,x\r2,y\n", b'k,v\n1,"x\n2,y\n'):
        path.write_bytes(data)
        assert read(path, options, 1) is None


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"k\n1\n\xe4\n")
    split = split_file(find_files([str(path)])[0], "csv")[0]
    with pytest.raises(InputError, match=r"line 3 is not UTF-8; .* -O encoding="):
        list(read_csv(split, ReaderOptions(), ["k"]))


def test_a_row_with_too_many_fields_is_told_with_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"k,v\n \n1,2\n1,2,3\n")
    split = split_file(find_files([str(path)])[0], "csv")[0]
    with pytest.raises(InputError, match=r"from line 2 on: .*Expected 2 columns, got 3: 1,2,3"):
        list(read_csv(split, ReaderOptions(), ["k"]))


@pytest.mark.parametrize("is_multiline", [False, True])
def test_a_last_line_without_its_end_has_names(tmp_path: Path, *, is_multiline: bool) -> None:
    """Found by make fuzz: nothing but a first field and a separator."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,")
    assert csv_names(str(path), ReaderOptions(is_multiline=is_multiline)) == ["a", "_c1"]


def test_a_file_of_white_space_has_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n \n\t\r\n")
    assert csv_names(str(path), ReaderOptions()) is None
    assert read(path, ReaderOptions(), 1) == []


def test_old_line_ends_are_sparks_if_one_of_them_ends_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"k\r1\r\r \r2\r")
    with pytest.raises(NeedsSpark, match=r"its lines end with \\r alone"):
        csv_names(str(path), ReaderOptions())
    assert read(path, ReaderOptions(has_header=False), 3) == [
        *(("k",), ("1",), (" ",), ("2",)),
    ]


@pytest.mark.parametrize("split_bytes", [1, 7, 1_000])
def test_a_mark_of_byte_order_is_text_but_at_the_files_beginning(
    tmp_path: Path, split_bytes: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('\ufeff\ufeffk,v\n\ufeff1,x\n\ufeff,"y"\n', encoding="utf-8")
    assert csv_names(str(path), ReaderOptions()) == ["\ufeffk", "v"]
    assert read(path, ReaderOptions(), split_bytes) == [("\ufeff1", "x"), ("\ufeff", "y")]


@pytest.mark.parametrize("is_multiline", [False, True])
@pytest.mark.parametrize("data", [b"k\0,v\n1,x\n", b"k,v\n1,x\n2,\0\n"])
def test_without_a_quote_a_nul_is_refused_with_its_line(
    tmp_path: Path, data: bytes, *, is_multiline: bool
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    options = ReaderOptions(quote="", is_multiline=is_multiline)
    split = split_file(find_files([str(path)])[0], "csv", by_lines=not is_multiline)[0]
    with pytest.raises(InputError, match=f"line {1 if data[1:2] == bytes(1) else 3} has a NUL"):
        list(read_csv(split, options, ["v"]))


def test_with_line_ends_in_quotes_a_line_of_white_space_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n \na\n \n")
    options = ReaderOptions(is_multiline=True)
    assert csv_names(str(path), options) == [" "]
    assert read(path, options, 100) == [("a",), (" ",)]


@pytest.mark.parametrize(
    ("data", "count"), [('1,"a ""b"""\n"",",x"\n', 0), ('1,5" x\n', 1), ('"1\n","x"\n', 1)]
)
def test_lines_are_looked_at_one_by_one_where_quotes_are_odd_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str, count: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,v\n" + data)
    looked = []
    as_spark_reads = csv_reader._as_spark_reads

    def noted(block: Any, options: ReaderOptions, *, skips_white: bool) -> bytes:
        looked.append(block.offset)
        return as_spark_reads(block, options, skips_white=skips_white)

    monkeypatch.setattr(csv_reader, "_as_spark_reads", noted)
    read(path, ReaderOptions(), 1_000)
    # The header is looked at twice.
    assert len([offset for offset in looked if offset]) == count


@pytest.mark.parametrize("is_multiline", [False, True])
def test_names_that_look_like_other_values_are_text(tmp_path: Path, is_multiline: bool) -> None:
    """Spark takes them as they are."""
    path = tmp_path / "a.csv"
    names = ["007", "7", "1.50", "true", "NaN", "2020-01-01T00:00:00", "null", 'a"', "1,000"]
    path.write_text('007,7,1.50,true,NaN,2020-01-01T00:00:00,null,"a""","1,000"\n')
    assert csv_names(str(path), ReaderOptions(is_multiline=is_multiline)) == names


@pytest.mark.parametrize("header", ["k1,k,k", "k,k,k0", "k1,K,k", "_c1,,v", ",_C0,v"])
def test_names_that_are_two_columns_by_sparks_numbering_are_refused(
    tmp_path: Path, header: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with pytest.raises(InputError, match=r"two columns.*header=false"):
        csv_names(str(path), ReaderOptions())
