"""CSV without Spark is what Spark's reader makes of it, or one of them refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fastprod.load.csv_reader import csv_names, read_csv
from fastprod.load.file_splits import split_file
from fastprod.load.input_files import InputError, find_files
from fastprod.load.reader_options import reader_options
from fastprod.load.spark_check import text_check
from fastprod.spark.jobs.checked_files import check_text
from fastprod.spark.jobs.frame_engine import read_frame, reader_defaults
from support.oracle import spark_csv

Rows = list[tuple[str | None, ...]]

FILES: dict[str, tuple[bytes, dict[str, str]]] = {
    "white space": (b"\n \nk,v\n\n1,x\n  \n\t\n \x01 \n,\n\r\n\0\n 2 , y \n", {}),
    "tabs": (b"k\tv\n\t\n1\tx\n\t\n2\t\n", {"sep": "\t"}),
    "one column": (b'k\n1\n\n""\n \n2\n', {}),
    "line ends": (b'k,v\r\n1,x\r2,"y"\n3,z\n\r4,w\r', {}),
    "quotes": (b'k,v\n"a,b","c""d"\n5" x,a"b"c\n"""","""a"""\n a, "b"\n\\"a\\",\n', {}),
    "nulls": (b'k,v\n,""\nNA,"NA"\n"",\n', {}),
    "other nulls": (b'k,v\n,""\nNA,"NA"\n"",\n', {"nullValue": "NA"}),
    "other quotes": (b"k,v\n'it''s','a\"b'\n\"c,d\n", {"quote": "'"}),
    "no quotes": (b'k,v\n"a,b"\n""",c""\n', {"quote": ""}),
    "names": (b'A,a,"x ""y",,""\n1,2,3,4,5\n', {}),
    "text": ("\ufeffk,v\n\u00e4,\u2003\n\u00a0,\0\n#1,\0x\n".encode(), {}),
    "marks of byte order": ("k,v\n\ufeff1,x\n\ufeff,y\n\ufeff\ufeff2,\ufeffz\n".encode(), {}),
    "only marks of byte order": ("\ufeffk\n\ufeff\n\ufeff".encode(), {}),
    "no line end": (b'k,v\n1,"x"\n2,', {}),
    "no rows": (b"k,v\n", {}),
    "a quote that is not closed": (b'k,v\n1,"x\ny",2\n', {}),
    "text behind a quote": (b'k,v\n1,"x"y\n', {}),
    "space behind a quote": (b'k,v\n1,"x" \n', {}),
    "no UTF-8": (b"k,v\n1,\xff\n", {}),
    "NULs without quotes": (b"k,v\n\0,x\n", {"quote": ""}),
    "too many fields": (b"k,v\n1,x,y\n", {}),
    "too few fields": (b"k,v\n1\n", {}),
}
REFUSED = ("a quote", "text behind", "space behind", "no UTF-8", "NULs", "too")

WITHOUT_SPARK = ("tabs", "one column", "text", "white space", "carriage returns")
"""What Spark would read differently, so that it is not let near it."""

MULTILINE: dict[str, bytes] = {
    "line feeds": b'k,v\n"a\nb","c\r\nd\re"\n\n5" x,"y""\n"\n',
    "carriage returns": b'"k\r\nl",v\r\n"a\r\nb","c\nd"\r\n\r\n1,x',
    "a line of white space before the header": b' \n"a\nb"\n  \n\t\nc',
    "no rows": b"k,v\n",
}


def ours(path: Path, given: dict[str, str]) -> Rows | None:
    options = reader_options("csv", given)
    names = csv_names(str(path), options)
    assert names is not None
    file = find_files([str(path)])[0]
    try:
        batches = [
            batch
            for split in split_file(file, "csv", 7, by_lines=not options.is_multiline)
            for batch in read_csv(split, options, names)
        ]
    except InputError:
        return None
    rows = [row.values() for batch in batches for row in batch.to_pylist()]
    decoded = [tuple(None if each is None else each.decode() for each in row) for row in rows]
    return [tuple(names), *decoded]


def sparks(spark: SparkSession, path: Path, given: dict[str, str]) -> Rows | None:
    check = text_check("csv", given)
    assert check is not None
    try:
        check_text(spark, check, find_files([str(path)]))
    except InputError:
        return None
    options = reader_defaults("csv", given, is_tabbed=False)
    frame = read_frame(spark, "csv", [str(path)], options)
    return [tuple(frame.columns), *(tuple(row) for row in frame.collect())]


@pytest.mark.parametrize("name", list(FILES))
def test_rows_are_those_of_spark_and_of_the_model(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    data, given = FILES[name]
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    null_value = given.get("nullValue", "")
    wanted = spark_csv.rows(data, given.get("sep", ","), given.get("quote", '"'), null_value)
    found = ours(path, given)
    if name.startswith(REFUSED):
        assert (found, wanted) == (None, None)
        return
    # Names that Spark has changed are not those of the file, which it would check.
    assert sparks(spark, path, {**given, "enforceSchema": "true"}) == (
        None if name in WITHOUT_SPARK else found
    )
    assert wanted is not None
    assert found is not None
    assert found[1:] == wanted[1:]


@pytest.mark.parametrize("name", list(MULTILINE))
def test_rows_with_line_ends_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(MULTILINE[name])
    given = {"multiLine": "true"}
    found = ours(path, given)
    assert found is not None
    assert sparks(spark, path, given) == (None if name in WITHOUT_SPARK else found)
