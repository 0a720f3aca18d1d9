"""CheckedFiles: files that have been looked through, so that Spark's readers lose nothing."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyspark.accumulators import Accumulator
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from fastprod.load.avro_files import avro_names, avro_schema, check_avro_files
from fastprod.load.file_splits import SPLIT_BYTES, FileSplit, split_file
from fastprod.load.input_files import (
    TEXTS,
    InputError,
    InputFile,
    folder_columns,
    is_mark,
    reads_by_folders,
)
from fastprod.load.load_request import is_tabbed
from fastprod.load.spark_check import SparkCheck, text_check
from fastprod.load.stream_check import SparkFile, StreamCheck, local_path
from fastprod.load.typed_files import KINDS, check_typed_files, column_names, typed_columns
from fastprod.spark.jobs.stream_files import Seen

# Options that leave out files.
_FILTERS: Final = ("pathglobfilter", "modifiedbefore", "modifiedafter")
_DAMAGED: Final = "MALFORMED_RECORD_IN_PARSING"
_NEW_CALENDAR: Final = date(1582, 10, 15)
# Its stubs know no function of three arrays.
_arrow_udf: Final[Any] = arrow_udf
_WHOLE: Final[Mapping[type[DataType], pyarrow.DataType]] = {
    BooleanType: pyarrow.bool_(),
    ByteType: pyarrow.int8(),
    ShortType: pyarrow.int16(),
    IntegerType: pyarrow.int32(),
    LongType: pyarrow.int64(),
}


def check_headers(
    kind: str,
    files: Sequence[InputFile],
    options: Mapping[str, str],
    *,
    named: Sequence[str] | None,
    known: Sequence[str],
    needed: Sequence[str],
    needs_named: bool = True,
) -> None:
    """Refuse files whose headers tell that Spark would leave out or change something.

    Args:
        kind: the format; others than those of typed columns have no header.
        files: all of them.
        options: of the reader, as given.
        named: the columns of the user's schema; None: there is none.
        known: the columns that Spark reads, those of folders too.
        needed: columns that each file must have.
        needs_named: whether each column that is named has to be in a file.

    Raises:
        InputError: which file, and why.
    """
    is_avro = kind == "avro" and not _has_avro_schema(options)
    made = _folder_columns(files, options)
    named = None if named is None else [name for name in named if name not in made]
    if kind in KINDS:
        needed = [name for name in needed if name not in made]
        check_typed_files(files, kind, named=named, known=known, needed=needed)
    elif is_avro and named is None:
        check_avro_files(files)
    paths = [file.path for file in files if file.size_bytes]
    if named and needs_named and paths and (is_avro or kind in KINDS):
        names = [avro_names(path) if is_avro else column_names(path, kind) for path in paths]
        found = {name.lower() for each in names for name in each}
        _refuse_missing([name for name in named if name.lower() not in found], paths[0])


def _has_avro_schema(options: Mapping[str, str]) -> bool:
    return any(name.lower().startswith("avroschema") for name in options)


def _folder_columns(files: Iterable[InputFile], options: Mapping[str, str]) -> set[str]:
    """The columns that Spark makes of folders."""
    if not reads_by_folders(options):
        return set()
    return {name for file in files for name in folder_columns(file)}


def check_found(
    files: Iterable[InputFile], urls: Iterable[str], options: Mapping[str, str]
) -> None:
    """Refuse a reading of other files than those that were found.

    Args:
        files: all of them.
        urls: of those that Spark's reader has found.
        options: of the reader, as given; some leave out files.

    Raises:
        InputError: a file that Spark has not found, or has found besides.
    """
    wanted = {file.path for file in files}
    found = {local_path(url) for url in urls}
    if not any(name.lower() in _FILTERS for name in options):
        for path in sorted(wanted - found):
            raise InputError(
                f"{path} is not found by Spark's reader: it is gone, or Java does not understand "
                f"its name, as with LC_ALL=C: set LC_ALL to a locale of UTF-8, or rename it"
            )
    for path in sorted(found - wanted):
        if not is_mark(Path(path).name):
            raise InputError(f"{path} has come since the files were found: run it again")


def check_columns(files: Iterable[InputFile], columns: Iterable[str]) -> None:
    """Refuse folders named name=value whose names are those of columns in files.

    Args:
        files: all of them.
        columns: that Spark finds in the files, without looking at folders.

    Raises:
        InputError: which column.
    """
    inside = {name.lower() for name in columns}
    for file in files:
        for name in folder_columns(file):
            if name.lower() in inside:
                raise InputError(
                    f"{file.path} is in a folder named {name}=..., and files have a column "
                    f"{name!r} too, which Spark would replace by the folder's: rename the folder, "
                    f"or give -O recursiveFileLookup=true, by which no folder makes a column"
                )


def file_check(
    kind: str,
    files: Sequence[InputFile],
    options: Mapping[str, str],
    schema: StructType,
    *,
    used: Sequence[str] | None,
    has_schema: bool,
    needs_named: bool = False,
) -> SparkCheck | None:
    """The check for files of text; None: there is nothing to look for.

    Args:
        kind: the format.
        files: all of them.
        options: of the reader, as given.
        schema: by which Spark reads them.
        used: columns whose values become bytes as they are; None: all columns, with their types.
        has_schema: whether the user gave the schema.
        needs_named: whether each of its columns of JSON has to be in a file.
    """
    if kind not in TEXTS or (kind == "text" and used is not None):
        return None
    made = {name.lower() for name in _folder_columns(files, options)}
    knows_all = used is None and not has_schema
    needs_named = needs_named and kind == "json"
    types = {}
    for column in schema.fields:
        if column.name.lower() not in made and (used is None or column.name in used):
            found = arrow_type(column.dataType, is_exact=knows_all)
            if found is not None:
                types[column.name] = found
    return text_check(
        kind,
        options,
        is_tabbed=is_tabbed(list(files)),
        types=types,
        knows_all=knows_all,
        named=[name for name in schema.fieldNames() if needs_named and name.lower() not in made],
    )


def stream_check(
    kind: str,
    files: Sequence[InputFile],
    options: Mapping[str, str],
    schema: StructType,
    *,
    used: Sequence[str] | None,
    has_schema: bool,
    by_name: bool,
) -> StreamCheck:
    """The check for the files of a stream; arguments as of `file_check`, of its start.

    With `by_name` the names of files have to tell their format.

    Raises:
        InputError: the files of the start are not alike.
    """
    text = file_check(kind, files, options, schema, used=used, has_schema=has_schema)
    named = schema.fieldNames() if has_schema else None
    known = schema.fieldNames()
    check_headers(kind, files, options, named=named, known=known, needed=(), needs_named=False)
    filled = [file for file in files if file.size_bytes]
    made = _folder_columns(files, options)
    is_avro = kind == "avro" and not _has_avro_schema(options)
    return StreamCheck(
        kind,
        text,
        typed_columns(filled, kind) if kind in KINDS and not has_schema else None,
        avro_schema(filled[0].path) if is_avro and filled and not has_schema else None,
        () if has_schema else [name for name in used or () if name not in made],
        by_name,
    )


def watched(frame: DataFrame, check: StreamCheck, read: Accumulator[deque[Seen]]) -> DataFrame:
    """A frame of a stream's files that fails at a file that does not pass the check.

    Args:
        frame: of the files.
        check: what they must be like.
        read: gets URL, size, and time of change (ms) of each file of which a row comes by.
    """
    seen: set[tuple[str, int, int, int, int]] = set()  # by a task: each has a copy

    def look(*columns: pyarrow.Array) -> pyarrow.Array:
        parts = set(zip(*(each.to_pylist() for each in columns), strict=True))
        for url, start, part_bytes, file_bytes, time_us in parts - seen:
            check.check(SparkFile(url, start, part_bytes, file_bytes))
            read.add(deque([(url, file_bytes, time_us // 1000)]))
        seen.update(parts)
        return pyarrow.repeat(pyarrow.scalar(True), len(columns[0]))

    # Not deterministic, or a condition on the rows could be tried first.
    passes = _arrow_udf(look, "boolean").asNondeterministic()
    found = frame.metadataColumn("_metadata")
    names = ("file_path", "file_block_start", "file_block_length", "file_size")
    time_us = functions.unix_micros(found["file_modification_time"])
    return frame.where(passes(*(found[name] for name in names), time_us))


def with_known_times(frame: DataFrame) -> DataFrame:
    """A frame of files of ORC that fails at times of which nobody knows the calendar.

    Before 1582-10-15 writers of ORC count days by one of two calendars, and Spark knows one.
    """
    path = frame.metadataColumn("_metadata")["file_path"]
    for field in frame.schema.fields:
        is_old = _is_old(functions.col("`" + field.name.replace("`", "``") + "`"), field.dataType)
        if is_old is not None:
            told = functions.concat(
                path,
                functions.lit(
                    f": column {field.name!r} has a time before 1582-10-15, of which Spark may "
                    f"make another one: leave the column out by --schema"
                ),
            )
            fails = functions.raise_error(told).cast("boolean")
            frame = frame.where(functions.when(is_old, fails).otherwise(functions.lit(True)))
    return frame


def _is_old(column: Column, kind: DataType) -> Column | None:
    """Whether a value is, or has in it, a time before 1582-10-15; None: it is none."""
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return column < functions.lit(_NEW_CALENDAR)
    if isinstance(kind, ArrayType):
        element = kind.elementType
        if _is_old(functions.lit(None), element) is None:
            return None
        return functions.exists(column, lambda each: _known(_is_old(each, element)))
    if isinstance(kind, MapType):
        return _any_old(
            (functions.map_keys(column), ArrayType(kind.keyType)),
            (functions.map_values(column), ArrayType(kind.valueType)),
        )
    if isinstance(kind, StructType):
        return _any_old(*((column[field.name], field.dataType) for field in kind.fields))
    return None


def _any_old(*parts: tuple[Column, DataType]) -> Column | None:
    found = [each for each in itertools.starmap(_is_old, parts) if each is not None]
    return functools.reduce(Column.__or__, map(_known, found)) if found else None


def _known(condition: Column | None) -> Column:
    """A condition that is false where its value is null."""
    assert condition is not None
    return functions.coalesce(condition, functions.lit(False))


def arrow_type(kind: DataType, *, is_exact: bool) -> pyarrow.DataType | None:
    """The type in JSON of what Spark reads as a type; None: any.

    Args:
        kind: Spark's.
        is_exact: whether strings must be strings in JSON; otherwise Spark is to make text of
            whatever there is.
    """
    if isinstance(kind, StructType):
        fields = [(each.name, arrow_type(each.dataType, is_exact=is_exact)) for each in kind.fields]
        return pyarrow.struct([(name, found) for name, found in fields if found is not None])
    if isinstance(kind, ArrayType):
        element = arrow_type(kind.elementType, is_exact=is_exact)
        return None if element is None else pyarrow.list_(element)
    if isinstance(kind, DecimalType):
        return pyarrow.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FractionalType):
        return pyarrow.float64()
    if type(kind) in _WHOLE:
        return _WHOLE[type(kind)]
    if isinstance(kind, MapType | VariantType | BinaryType):
        return None
    # Times that Spark found are strings in JSON.
    return pyarrow.string() if is_exact or not isinstance(kind, StringType) else None


def check_text(spark: SparkSession, check: SparkCheck, files: Iterable[InputFile]) -> None:
    """Look through files in Spark's tasks.

    Raises:
        InputError: of the first split with a fault.

    Blocks: for as long as it takes to parse the files.
    """
    splits = [
        split for file in files for split in split_file(file, check.kind, by_lines=check.by_lines)
    ]
    if not splits:
        return
    # Many small files are no task each.
    large = sum(split.size_bytes for split in splits) // SPLIT_BYTES
    count = min(len(splits), max(4 * spark.sparkContext.defaultParallelism, large))
    looked = spark.sparkContext.parallelize(splits, count).mapPartitions(
        functools.partial(_looked, check)
    )
    found: set[str] = set()
    for fault, names in looked.collect():
        if fault is not None:
            raise InputError(fault)
        found |= names
    _refuse_missing([name for name in check.named if name not in found], splits[0].path)


@contextlib.contextmanager
def damage_told(
    spark: SparkSession, kind: str, files: Iterable[InputFile], options: Mapping[str, str]
) -> Iterator[None]:
    """Tell where the damaged row is at which Spark's search for columns of JSON fails.

    Args:
        spark: the session.
        kind: the format.
        files: in which Spark searches.
        options: of the reader, as given.

    Raises:
        InputError: the file, the line, and what is wrong there.
    """
    try:
        yield
    except Exception as error:
        # Spark names neither: of its message only the column for damaged rows would be left.
        check = text_check(kind, options) if kind == "json" and _DAMAGED in str(error) else None
        if check is not None:
            check_text(spark, check, files)
        raise


def _refuse_missing(missing: Iterable[str], path: str) -> None:
    """Refuse a column that is in no file: it would be null everywhere.

    Raises:
        InputError: which.
    """
    for name in missing:
        raise InputError(f"--schema: no file has the column {name!r}, such as {path}")


def _looked(
    check: SparkCheck, splits: Iterable[FileSplit]
) -> Iterator[tuple[str | None, set[str]]]:
    """For each split what is wrong, and the columns that were looked for and are there."""
    for split in splits:
        try:
            yield None, check.check(split)
        except InputError as error:
            yield str(error), set()
