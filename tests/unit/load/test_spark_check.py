"""fastprod.load.spark_check: what is looked for in files of text."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from fastprod.load.file_splits import split_file
from fastprod.load.input_files import InputError, find_files
from fastprod.load.spark_check import text_check

CSV = {
    "a line end in quotes": (b'k,v\n1,"x\ny,z"\n', {}, "line 2: a quoted field does not end"),
    "a NUL": (b"k,v\n1,x\n\0#,y\n", {}, "line 3 has a NUL"),
    "no UTF-8": (b"k,v\n1,\xff\n", {}, "line 2 is not UTF-8"),
    "a row of white space": (b"v\nx\n \ny\n", {}, "line 3 has nothing but white space"),
    "the last row": (b"v\nx\n ", {}, "line 3 has nothing but white space"),
    "a row of tabs": (b"k\tv\n\t\nx\ty\n", {"sep": "\t"}, "line 2 has nothing but white"),
    "too few fields": (b"k,v\n1\n", {}, "line 2"),
    "line ends of the file in quotes": (
        b'k,v\r\n1,"x\r\ny"\r\n',
        {"multiLine": "true"},
        r"the line end \\r\\n, of which Spark",
    ),
}


def look(path: Path, kind: str, given: dict[str, str]) -> None:
    check = text_check(kind, given)
    assert check is not None
    for split in split_file(find_files([str(path)])[0], kind, 7, by_lines=check.by_lines):
        check.check(split)


@pytest.mark.parametrize("name", list(CSV))
def test_csv_that_spark_reads_differently_is_refused_with_its_file(
    tmp_path: Path, name: str
) -> None:
    data, given, told = CSV[name]
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InputError, match=rf"^{tmp_path}/a\.csv: .*{told}"):
        look(tmp_path / "a.csv", "csv", given)


@pytest.mark.parametrize(
    ("data", "given"),
    [
        (b'k,v\n1,"x ""y"""\n\n  \n2, \n', {"Mode": "failfast", "escape": '"'}),
        (b'k,v\r\n1,"x\ny"\r\n', {"multiLine": "true", "inferSchema": "true"}),
        (b"'k';v\n'1;2';\"\n", {"sep": ";", "quote": "'", "escape": "'"}),
        (b"", {}),
    ],
)
def test_other_csv_passes(tmp_path: Path, data: bytes, given: dict[str, str]) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    look(tmp_path / "a.csv", "csv", given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("csv", {"mode": "PERMISSIVE"}),
        ("csv", {"escape": "\\"}),
        ("csv", {"sep": "||"}),
        ("csv", {"encoding": "ISO-8859-1"}),
        ("json", {"allowComments": "true"}),
        ("json", {"primitivesAsString": "true"}),
        ("text", {"wholetext": "true"}),
    ],
)
def test_options_that_say_how_text_is_cut_leave_it_to_spark(
    kind: str, given: dict[str, str]
) -> None:
    assert text_check(kind, given) is None


@pytest.mark.parametrize("kind", ["csv", "json", "text"])
@pytest.mark.parametrize(
    "given",
    [
        {"maxFilesPerTrigger": "1"},
        {"latestFirst": "true", "cleanSource": "off"},
        {"ignoreMissingFiles": "false", "mergeSchema": "true"},
        {"allowComments": "false", "wholetext": "FALSE", "mode": "failfast"},
        {"not.an.option": "x"},
    ],
)
def test_other_options_leave_nothing_to_spark(kind: str, given: dict[str, str]) -> None:
    assert text_check(kind, given) == text_check(kind, {})
    assert text_check(kind, given) is not None


def test_json_is_one_document_with_multiline(tmp_path: Path) -> None:
    types = {"a": pyarrow.int64()}
    for given, by_lines in (({"multiLine": "True"}, False), ({"dateFormat": "yyyy"}, True)):
        check = text_check("json", given, types=types, knows_all=True)
        assert check is not None
        assert (check.by_lines, check.types, check.knows_all) == (by_lines, types, True)


def test_text_that_becomes_json_is_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x\n\xff\n")
    with pytest.raises(InputError, match=r"a\.txt: line 2 is not UTF-8"):
        look(tmp_path / "a.txt", "text", {})


def test_a_file_that_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"k,v\n")
    with pytest.raises(InputError, match=r"a\.csv\.gz cannot be read as csv"):
        look(tmp_path / "a.csv.gz", "csv", {})


@pytest.mark.parametrize("name", ["a.csv.deflate", "a.csv.snappy"])
def test_what_cannot_be_looked_through_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"k,v\n1,x\n")
    with pytest.raises(InputError, match=rf"{name}: .* is not unpacked without Spark, and has to"):
        look(tmp_path / name, "csv", {})
