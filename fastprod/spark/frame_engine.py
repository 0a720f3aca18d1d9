"""The frame engine: Spark's readers and its SQL, and our sink behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from fastprod.spark.column_mapping import ColumnMapping
from fastprod.spark.input_files import InputError
from fastprod.spark.value_format import json
from fastprod.spark.value_format.column_types import FormatError

INPUT_VIEW: Final = "input"
"""What SQL calls the rows of the files."""

_NESTED: Final = (ArrayType, MapType, StructType, VariantType)
_IGNORES_NULLS: Final = "spark.sql.jsonGenerator.ignoreNullFields"
# What makes a row depend on others: such a query cannot be run file by file.
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


def reader_defaults(
    kind: str, given: Mapping[str, str], *, is_tabbed: bool, has_schema: bool
) -> dict[str, str]:
    """Options for Spark's reader by which it reads as the direct engine does.

    Args:
        kind: the format.
        given: options by Spark's names, which go before.
        is_tabbed: whether the files are CSV with tabs.
        has_schema: whether columns are named by the user, not by the files.
    """
    defaults: dict[str, str] = {}
    lower = {name.lower(): value for name, value in given.items()}
    if kind in ("csv", "json"):
        # Spark's own default makes nulls of a damaged row, which are records without a value.
        defaults["mode"] = "FAILFAST"
    if kind == "csv":
        # Fields that are left over, or missing, are seen only where all are read.
        defaults |= {"header": "true", "columnPruning": "false"}
        defaults["escape"] = lower.get("quote") or '"'
        if not has_schema:
            # Else files with the columns in another order are read by those of the first.
            defaults["enforceSchema"] = "false"
        if is_tabbed:
            defaults["sep"] = "\t"
    return {name: each for name, each in defaults.items() if name not in lower} | dict(given)


def read_frame(
    spark: SparkSession,
    kind: str,
    paths: Sequence[str],
    options: Mapping[str, str],
    schema: str | None = None,
) -> DataFrame:
    """The rows of files.

    Raises:
        pyspark.errors.AnalysisException: a path, the format, the schema.
    """
    reader = spark.read.format(kind).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(list(paths))


def queried(frame: DataFrame, sql: str | None, select: str | None, where: str | None) -> DataFrame:
    """The rows that SQL makes of a frame, which it knows as `INPUT_VIEW`.

    Args:
        frame: of files or of a stream.
        sql: a whole query; then neither of the others.
        select: expressions with commas; None: all columns.
        where: a condition on the frame's own columns.

    Raises:
        pyspark.errors.AnalysisException: it is no SQL, or names what is not there.
    """
    if sql is None:
        if select is None and where is None:
            return frame
        sql = f"select {select or '*'} from {INPUT_VIEW}"
        sql += "" if where is None else f" where {where}"
    frame.createOrReplaceTempView(INPUT_VIEW)
    return frame.sparkSession.sql(sql)


def check_by_row(frame: DataFrame) -> None:
    """Refuse a query whose rows depend on more than a row of the input.

    Raises:
        InputError: it has an aggregate, a window, a limit, an order, a join or a subquery.
    """
    plan = frame._jdf.queryExecution().analyzed()
    found = [name for name in _WHOLE if _has_node(plan.treeString(), name)]
    found += ["subquery"] if plan.subqueriesAll().size() else []
    if found:
        raise InputError(
            f"with --job-id the files are loaded one group after the other, and this query needs "
            f"all rows at once ({', '.join(found)}): leave out --job-id, or make it row by row"
        )


def _has_node(tree: str, name: str) -> bool:
    return any(line.lstrip(" :+-").startswith(name) for line in tree.splitlines())


def record_frame(frame: DataFrame, mapping: ColumnMapping) -> DataFrame:
    """The columns of a record, from the columns of the mapping.

    Args:
        frame: the rows.
        mapping: resolved with the frame's columns.

    Returns:
        What the sink takes together with `format_options`.

    Raises:
        InputError: a column has a type that is no record's.
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
        partition = _exactly("--partition-column", mapping.partition, "int")
        columns.append(partition.alias("partition"))
    if mapping.timestamp:
        columns.append(_timestamp(mapping.timestamp, types).alias("timestamp"))
    headers = _headers(mapping, types)
    if headers is not None:
        columns.append(headers.alias("headers"))
    return frame.select(*columns)


def format_options(frame: DataFrame, mapping: ColumnMapping) -> dict[str, str]:
    """Options of the sink for the values of a `record_frame`; nulls are as in Spark's to_json."""
    if mapping.value_format != "json":
        return {}
    ignores = frame.sparkSession.conf.get(_IGNORES_NULLS)
    assert ignores is not None
    return {
        "value.format": "json",
        "value.columns": "value.*",
        "json.ignoreNullFields": ignores,
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


def _timestamp(name: str, types: Mapping[str, DataType]) -> Column:
    if isinstance(types[name], IntegralType):
        return functions.timestamp_millis(_column(name))
    if isinstance(types[name], TimestampType):
        return _column(name)
    return _exactly("--timestamp-column", name, "timestamp")


def _exactly(option: str, name: str, kind: str) -> Column:
    """A cast that fails at what does not fit, also where those of the session make something of it.

    Without ANSI casts a number wraps around and a text becomes null: a record of another partition.
    """
    column = _column(name)
    found = column.try_cast(kind)
    told = functions.concat(
        functions.lit(f"{option}: column {name!r} has a value that is no {kind}: "),
        column.cast("string"),
    )
    fits = column.isNull() | found.isNotNull()
    return functions.when(fits, found).otherwise(functions.raise_error(told))


def _headers(mapping: ColumnMapping, types: Mapping[str, DataType]) -> Column | None:
    """An array a row, as options of the sink would lose the case of the names."""
    pairs = [(name, functions.lit(bytearray(value))) for name, value in mapping.headers]
    pairs += [
        (name, _payload(f"--header-column {name}", column, types))
        for name, column in mapping.header_columns
    ]
    if not pairs:
        return None
    return functions.array(
        *(
            functions.struct(functions.lit(name).alias("key"), value.cast("binary").alias("value"))
            for name, value in pairs
        )
    )
