"""Random files of every format: both engines read what was written, or refuse the files.

FASTPROD_SCALE makes more of them; a case is found again by the number in the message.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.input_files import InputError
from support.processes.scale import scaled, time_limit
from support.spark.file_reading import read_objects, read_values
from support.spark.file_sets import FileSet, file_set, plain, text

REFUSALS = (InputError, PySparkException, Py4JJavaError)
# How many readings files without a trap have at least: JSON with fractions is left to Spark.
ENGINES = {"csv": 3, "json": 2, "parquet": 3, "orc": 2, "avro": 2, "text": 3}
VALUE = ColumnMapping(value="value", key="")


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    """Those that commands have, and one time zone."""
    given = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }
    for name, value in given.items():
        spark.conf.set(name, value)
    yield
    for name in given:
        spark.conf.unset(name)


def frozen(value: Any) -> Any:
    """Something that can be counted."""
    if isinstance(value, dict):
        return frozenset((name, frozen(each)) for name, each in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else (type(value).__name__, value)


def numbered(value: bytes | None) -> Any:
    """A number, however it is written, as a decimal."""
    try:
        found = None if value is None else Decimal(value.decode())
        return found if found is None or found.is_finite() else value
    except ArithmeticError:
        return value


def readings(spark: SparkSession, folder: Path, made: FileSet) -> Iterator[tuple[str, Any, Any]]:
    """The name of a reading, what it gives, and what was written; refused ones are left out."""
    given = {"kind": made.kind, "reader_options": made.options}
    if made.kind == "avro":
        engines = ["spark"]
    else:
        engines = ["spark", "direct"] if made.kind != "orc" else ["spark"]
    same: Callable[[bytes | None], Any] = numbered if made.kind == "json" else lambda value: value
    written = Counter(same(text(row.get("value"))) for row in made.rows)
    for engine in engines:
        with contextlib.suppress(*REFUSALS):
            found = read_values(spark, folder, engine, VALUE, **given)
            yield engine, Counter(map(same, found)), written
    if made.kind != "text" or "not UTF-8" not in made.traps:
        objects = [
            {name: each.decode() if made.kind == "text" else each for name, each in row.items()}
            for row in made.rows
        ]
        with contextlib.suppress(*REFUSALS):
            found = read_objects(spark, folder, **given)
            yield "json", Counter(map(frozen, found)), Counter(frozen(plain(r)) for r in objects)


@time_limit(3000, least_s=600)
@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "orc", "text"])
def test_files_are_read_as_they_were_written_or_refused(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    for number in range(scaled(100, at_least=2, default_percent=2.0)):
        made = file_set(Random(f"{kind} {number}"), kind)
        folder = tmp_path / str(number)
        made.write(folder)
        read = 0
        for name, found, written in readings(spark, folder, made):
            assert found == written, f"{kind} {number}, {name}, {made.traps}, {made.options}"
            read += 1
        if not made.traps and made.rows:
            assert read >= ENGINES[kind], f"{kind} {number} was refused"
