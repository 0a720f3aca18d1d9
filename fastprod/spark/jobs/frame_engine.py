"""The frame engine: Spark's readers and SQL, then our sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.input_files import InputError
from fastprod.load.split_reader import header_field
from fastprod.spark.formats import json
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.hidden_options import BYTES, HIDDEN, HiddenOptions

INPUT_VIEW: Final = "input"
"""Name of the table of the files' rows in SQL."""

_NESTED: Final = (ArrayType, MapType, StructType, VariantType)
# As Spark's to_json, which cuts timestamps to milliseconds, but with all that they have.
_TIMES: Final = {
    "json.timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXXXX]",
    "json.timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_IGNORES_NULLS: Final = "spark.sql.jsonGenerator.ignoreNullFields"
# Parts of a plan that make a row depend on others: such a query cannot be run file by file.
_WHOLE: Final = (
    "Aggregate",
    "Window",
    "Sort",
    "Distinct",
    "Deduplicate",
    "GlobalLimit",
    "Offset",
    "Join",
    "LateralJoin",
    "Intersect",
    "Except",
)
# Parts of a plan that have rows of their own, which each group of files would bring anew.
_OWN_ROWS: Final = ("OneRowRelation", "LocalRelation", "Range")


def reader_defaults(kind: str, given: Mapping[str, str], *, is_tabbed: bool) -> dict[str, str]:
    """Options for Spark's reader by which it reads as the direct engine does.

    Args:
        kind: the format.
        given: options by Spark's names, which go before.
        is_tabbed: whether the files are CSV with tabs.
    """
    defaults: dict[str, str] = {}
    lower = {name.lower(): value for name, value in given.items()}
    if kind in ("csv", "json"):
        # Spark's default turns a damaged row into nulls: records without a value.
        defaults["mode"] = "FAILFAST"
        if "mode" not in lower:
            # Else a column of that name, _corrupt_record, is taken for Spark's own, and is null.
            defaults["columnNameOfCorruptRecord"] = "_corrupt_record of Spark"
    if kind == "csv":
        # Extra or missing fields are noticed only if all columns are read.
        defaults |= {"header": "true", "columnPruning": "false"}
        defaults["escape"] = lower.get("quote") or '"'
        # Otherwise the columns of the first file, or of a schema, would be used for files with
        # another order.
        defaults["enforceSchema"] = "false"
        # Otherwise "" in quotes would be null, too. No field of a file that is checked has a NUL.
        defaults["nullValue"] = "\0"
        if not lower.get("nullvalue"):
            given = {name: each for name, each in given.items() if name.lower() != "nullvalue"}
        if is_tabbed:
            defaults["sep"] = "\t"
    if kind in ("parquet", "orc"):
        # Otherwise columns that are not in the file that Spark looks at are left out in silence.
        defaults["mergeSchema"] = "true"
    names = {name.lower() for name in given}
    missing = {name: each for name, each in defaults.items() if name.lower() not in names}
    return missing | dict(given)


def read_frame(
    spark: SparkSession,
    kind: str,
    paths: Sequence[str],
    options: Mapping[str, str],
    schema: str | StructType | None = None,
) -> DataFrame:
    """The rows of files.

    Args:
        spark: the session.
        kind: the format.
        paths: as Spark takes them.
        options: of the reader.
        schema: of the files, as DDL or Spark's own; None: what Spark finds.

    Raises:
        pyspark.errors.AnalysisException: a path, the format, the schema.
    """
    reader = spark.read.format(kind).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(list(paths))


def queried(frame: DataFrame, sql: str | None, select: str | None, where: str | None) -> DataFrame:
    """The result of SQL on a frame, which is the table `INPUT_VIEW` there.

    Args:
        frame: of files or of a stream.
        sql: a whole query; then neither of the others.
        select: expressions with commas; None: all columns.
        where: a condition on the frame's own columns.

    Raises:
        pyspark.errors.AnalysisException: it is no SQL, or names an unknown column.
    """
    if sql is None:
        if select is None and where is None:
            return frame
        sql = f"select {select or '*'} from {INPUT_VIEW}"
        sql += "" if where is None else f" where {where}"
    frame.createOrReplaceTempView(INPUT_VIEW)
    return frame.sparkSession.sql(sql)


def check_by_row(frame: DataFrame) -> None:
    """Refuse a query in which a row depends on more than one row of the input.

    Raises:
        InputError: it has an aggregate, a window, a limit, an order, a join or a subquery, or rows
            that are not the input's.
    """
    plan = frame._jdf.queryExecution().analyzed()
    tree = plan.treeString()
    found = [name for name in _WHOLE if _has_node(tree, name)]
    found += ["subquery"] if plan.subqueriesAll().size() else []
    if found:
        raise InputError(
            f"with --job-id the files are loaded one group after the other, and this query needs "
            f"all rows at once ({', '.join(found)}): leave out --job-id, or make it row by row"
        )
    if any(_has_node(tree, name) for name in _OWN_ROWS):
        raise InputError(
            "with --job-id the files are loaded one group after the other, and this query has rows "
            "that are not the input's, which each group would bring anew: leave out --job-id, or "
            "send these rows by themselves"
        )


def _has_node(tree: str, name: str) -> bool:
    return any(line.lstrip(" :+-").startswith(name) for line in tree.splitlines())


def record_frame(frame: DataFrame, mapping: ColumnMapping) -> DataFrame:
    """The columns of a record, from the columns of the mapping.

    Args:
        frame: the rows.
        mapping: resolved with the frame's columns.

    Returns:
        A frame for the sink, with the options `record_options`.

    Raises:
        InputError: a column's type does not fit its part of a record.
    """
    types = {each.name: each.dataType for each in frame.schema.fields}
    if mapping.value_format == "json":
        try:
            json.check_types(frame.schema, "--value-format json")
        except FormatError as error:
            raise InputError(str(error)) from error
        # One struct: its fields may have the names of a record's other parts.
        columns = [functions.struct(*map(_column, types)).alias("value")]
    else:
        assert mapping.value is not None
        columns = [_payload("--value", mapping.value, types).alias("value")]
    if mapping.key:
        columns.append(_payload("--key", mapping.key, types).alias("key"))
    if mapping.partition:
        columns.append(_partition(mapping.partition, types).alias("partition"))
    if mapping.timestamp:
        columns.append(_timestamp(mapping.timestamp, types).alias("timestamp"))
    for index, (name, column) in enumerate(mapping.header_columns):
        payload = _payload(f"--header-column {name}", column, types)
        columns.append(payload.cast("binary").alias(header_field(index)))
    return frame.select(*columns)


def record_options(frame: DataFrame, mapping: ColumnMapping) -> dict[str, str]:
    """Options of the sink for a `record_frame`: the format of its values, and its headers.

    Constant headers are hidden, as they may be tokens; as options of their own, or literals of the
    frame, they would be in Spark's plans.  Nulls in JSON are as in Spark's to_json.
    """
    hidden = HiddenOptions(
        headers=tuple((name, value.decode(*BYTES)) for name, value in mapping.headers),
        header_columns=tuple(
            (name, header_field(index)) for index, (name, _) in enumerate(mapping.header_columns)
        ),
    )
    options = {HIDDEN: hidden.text()} if mapping.headers or mapping.header_columns else {}
    if mapping.value_format != "json":
        return options
    ignores = frame.sparkSession.conf.get(_IGNORES_NULLS)
    assert ignores is not None
    return {
        **options,
        "value.format": "json",
        "value.columns": "value.*",
        "json.ignoreNullFields": ignores,
        **_TIMES,
    }


def _column(name: str) -> Column:
    return functions.col("`" + name.replace("`", "``") + "`")


def _payload(option: str, name: str, types: Mapping[str, DataType]) -> Column:
    kind = types[name]
    if isinstance(kind, _NESTED):
        raise InputError(
            f"{option}: column {name!r} is of type {kind.simpleString()}, which has no bytes; give "
            f"--value-format json, or to_json({name}) in --select"
        )
    if isinstance(kind, StringType | BinaryType):
        return _column(name)
    return _column(name).cast("string")


def _partition(name: str, types: Mapping[str, DataType]) -> Column:
    kind = types[name]
    if not isinstance(kind, NumericType | StringType | NullType):
        raise InputError(
            f"--partition-column: column {name!r} is of type {kind.simpleString()}, which is no "
            f"number: cast it in --select"
        )
    return _exactly("--partition-column", name, "int", is_number=isinstance(kind, NumericType))


def _timestamp(name: str, types: Mapping[str, DataType]) -> Column:
    if isinstance(types[name], FractionalType):
        # Spark takes fractions for seconds, and whole numbers are milliseconds here.
        raise InputError(
            f"--timestamp-column: column {name!r} is of type {types[name].simpleString()}: give a "
            f"timestamp, or whole milliseconds since the epoch, as bigint({name}) makes them in "
            f"--select"
        )
    if isinstance(types[name], IntegralType):
        return functions.timestamp_millis(_column(name))
    if isinstance(types[name], TimestampType):
        return _column(name)
    return _exactly("--timestamp-column", name, "timestamp")


def _exactly(option: str, name: str, kind: str, *, is_number: bool = False) -> Column:
    """A cast that fails at values that do not fit, whatever the session's settings are.

    Without ANSI mode a number would overflow and a text become null: a record would go to another
    partition.  Of a number a fraction would be cut off.
    """
    column = _column(name)
    found = column.try_cast(kind)
    told = functions.concat(
        functions.lit(f"{option}: column {name!r} has a value that is no {kind}: "),
        column.cast("string"),
    )
    fits = column.isNull() | (found == column if is_number else found.isNotNull())
    fits = functions.coalesce(fits, functions.lit(False))
    return functions.when(fits, found).otherwise(functions.raise_error(told))
