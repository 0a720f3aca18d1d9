"""Times of ORC, whose type timestamp has no zone, and which Spark takes for those of Java's zone.

A file keeps the wall clock of its writer's zone, so that in another zone it is another moment. What
Spark writes it marks by its own type; what is not marked is a time without zone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import pyarrow
import pyarrow.orc
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from fastprod.load.input_files import InputError, InputFile
from fastprod.load.typed_files import SPARKS_TYPE

_SESSION_ZONE: Final = "spark.sql.session.timeZone"


def with_file_times(frame: DataFrame, files: Sequence[InputFile], *, has_schema: bool) -> DataFrame:
    """A frame of files of ORC whose times have a zone only where the files' own have one.

    Args:
        frame: of the files, as Spark reads them.
        files: all of them; none for URLs, at which nobody looks.
        has_schema: whether the user gave the types, which stay as they are.

    Raises:
        InputError: a file has the wall clock of another zone than Java's, files have both kinds of
            times in a column, or the session has another zone than Java.
    """
    wanted = {field.name for field in frame.schema.fields if _has_times(field.dataType)}
    spark, marks = frame.sparkSession, dict[str, tuple[bool, str]]()
    for file in files if wanted else ():
        told = dict(_file_times(file, wanted))
        if told:
            _check_writer(spark, file)
        for path, is_marked in told.items():
            first, there = marks.setdefault(path, (is_marked, file.path))
            if first != is_marked:
                raise InputError(
                    f"{file.path} and {there} have the column {path!r}, one of them as a time "
                    f"without zone: load them one by one"
                )
    bare = {path for path, (is_marked, _) in marks.items() if not is_marked}
    if has_schema or not bare:
        return frame
    _check_session(spark)
    columns = []
    for field in frame.schema.fields:
        column = functions.col("`" + field.name.replace("`", "``") + "`")
        kind = _without_zone(field.dataType, field.name, bare)
        is_same = kind == field.dataType
        columns.append(column if is_same else column.cast(kind).alias(field.name))
    return frame.select(*columns)


def _file_times(file: InputFile, wanted: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Paths of a file's times of type timestamp, and whether Spark has marked them as its own."""
    if not file.size_bytes:
        return
    try:
        schema = pyarrow.orc.ORCFile(file.path).schema
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file.path} cannot be read as orc: {error}") from error
    for column in schema:
        if column.name in wanted:
            yield from _field_times(column, column.name)


def _field_times(field: pyarrow.Field, path: str) -> Iterator[tuple[str, bool]]:
    kind = field.type
    if pyarrow.types.is_timestamp(kind) and kind.tz is None:
        yield path, (field.metadata or {}).get(SPARKS_TYPE) == b"timestamp"
    elif pyarrow.types.is_struct(kind):
        for inner in kind:
            yield from _field_times(inner, f"{path}.{inner.name}")
    elif pyarrow.types.is_map(kind):
        yield from _field_times(kind.key_field, f"{path}.key")
        yield from _field_times(kind.item_field, f"{path}.value")
    elif pyarrow.types.is_list(kind):
        yield from _field_times(kind.value_field, f"{path}.element")


def _without_zone(kind: DataType, path: str, bare: Collection[str]) -> DataType:
    """The type with times without zone at the paths that are in `bare`."""
    if isinstance(kind, TimestampType):
        return TimestampNTZType() if path in bare else kind
    if isinstance(kind, StructType):
        return StructType(
            [
                StructField(
                    each.name,
                    _without_zone(each.dataType, f"{path}.{each.name}", bare),
                    each.nullable,
                    each.metadata,
                )
                for each in kind.fields
            ]
        )
    if isinstance(kind, MapType):
        return MapType(
            _without_zone(kind.keyType, f"{path}.key", bare),
            _without_zone(kind.valueType, f"{path}.value", bare),
            kind.valueContainsNull,
        )
    if isinstance(kind, ArrayType):
        element = _without_zone(kind.elementType, f"{path}.element", bare)
        return ArrayType(element, kind.containsNull)
    return kind


def _has_times(kind: DataType) -> bool:
    """Whether values of the type have times that Spark takes for those of a zone."""
    if isinstance(kind, StructType):
        return any(_has_times(each.dataType) for each in kind.fields)
    if isinstance(kind, MapType):
        return _has_times(kind.keyType) or _has_times(kind.valueType)
    if isinstance(kind, ArrayType):
        return _has_times(kind.elementType)
    return isinstance(kind, TimestampType)


def _check_writer(spark: SparkSession, file: InputFile) -> None:
    """Refuse a file whose writer's zone has other rules than Java's.

    Raises:
        InputError: both zones, and what to set.
    """
    java: Any = spark._jvm
    try:
        path = java.org.apache.hadoop.fs.Path(java.java.io.File(file.path).toURI())
        options = java.org.apache.orc.OrcFile.readerOptions(spark._jsc.hadoopConfiguration())
        reader = java.org.apache.orc.OrcFile.createReader(path, options)
        try:
            rows = reader.rows()
            try:
                footers = map(rows.readStripeFooter, reader.getStripes())
                zones = {footer.getWriterTimezone() for footer in footers}
            finally:
                rows.close()
        finally:
            reader.close()
    except Py4JJavaError as error:
        raise InputError(f"{file.path} cannot be read as orc: {error.java_exception}") from error
    zone = java.java.util.TimeZone
    for name in sorted(zones - {""}):  # empty: of writers that did not tell
        if not zone.getTimeZone(name).hasSameRules(zone.getDefault()):
            raise InputError(
                f"{file.path} has times by the clocks of {name}, and Spark would take them for "
                f"those of {zone.getDefault().getID()}, where Java runs: give it "
                f"spark.driver.extraJavaOptions=-Duser.timezone={name}, and "
                f"spark.executor.extraJavaOptions likewise, or leave the columns out by --schema"
            )


def _check_session(spark: SparkSession) -> None:
    """Refuse a session in another zone than Java's: it would change clocks without zone.

    Raises:
        InputError: both zones.
    """
    java: Any = spark._jvm
    zone = java.java.util.TimeZone
    given = spark.conf.get(_SESSION_ZONE) or ""
    session = java.org.apache.spark.sql.catalyst.util.DateTimeUtils.getTimeZone(given)
    if not session.hasSameRules(zone.getDefault()):
        raise InputError(
            f"{_SESSION_ZONE} = {given}, and Java runs in {zone.getDefault().getID()}: of times "
            f"without zone in ORC Spark would change the clocks: leave the setting out, or leave "
            f"the columns out by --schema"
        )
