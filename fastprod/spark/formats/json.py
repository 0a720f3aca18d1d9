"""JSON as Spark's to_json writes it, natively."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow
from pyspark.sql.types import (
    AnsiIntervalType,
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DataType,
    MapType,
    StructType,
    VariantType,
)

from fastprod._core.json.layout import JsonFormat
from fastprod._core.json.rows import JsonRows
from fastprod.spark.formats.column_types import FormatError, refuse_types, walk
from fastprod.spark.formats.time_pattern import (
    DATE_LETTERS,
    TIMESTAMP_LETTERS,
    TIMESTAMP_NTZ_LETTERS,
    time_pattern,
)
from fastprod.spark.formats.zone_rules import zone_offsets

if TYPE_CHECKING:
    from fastprod._core.json.times import ZoneOffsets

_SPATIAL: Final = ("GeographyType", "GeometryType")  # since PySpark 4.2
_DATE: Final = "yyyy-MM-dd"
# Spark writes an offset's seconds by default, if there are any, though its manual says XXX.
_TIMESTAMP: Final = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXXXX]"
_TIMESTAMP_NTZ: Final = "yyyy-MM-dd'T'HH:mm:ss[.SSS]"


@dataclass(frozen=True)
class JsonEncoder:
    """Rows as JSON objects, named by their columns.

    Attributes:
        date_format: pattern of dates.
        timestamp_format: pattern of timestamps.
        timestamp_ntz_format: pattern of timestamps without a time zone.
        time_zone: of timestamps, by Java's name; "": the session's.
        ignores_null_fields: whether fields that are null are left out.
    """

    date_format: str = _DATE
    timestamp_format: str = _TIMESTAMP
    timestamp_ntz_format: str = _TIMESTAMP_NTZ
    time_zone: str = field(default="")
    ignores_null_fields: bool = True

    def encode(self, rows: pyarrow.RecordBatch) -> pyarrow.Array:
        """One JSON text for each row; see `Encoder.encode`."""
        return pyarrow.array(_native(self).encode(rows))

    def zone_of(self, name: str) -> ZoneOffsets:
        """The offsets of a column's time zone."""
        return zone_offsets(self.time_zone or name)


@lru_cache(maxsize=16)
def _native(encoder: JsonEncoder) -> JsonRows:
    return JsonRows(
        JsonFormat(
            date_pattern=time_pattern("json.dateFormat", encoder.date_format, DATE_LETTERS),
            timestamp_pattern=time_pattern(
                "json.timestampFormat", encoder.timestamp_format, TIMESTAMP_LETTERS
            ),
            timestamp_ntz_pattern=time_pattern(
                "json.timestampNTZFormat", encoder.timestamp_ntz_format, TIMESTAMP_NTZ_LETTERS
            ),
            zone_of=encoder.zone_of,
            ignores_nulls=encoder.ignores_null_fields,
        )
    )


def check_types(schema: StructType, format_name: str) -> None:
    """Refuse types that JSON does not have, and names that would be cut off.

    Args:
        schema: of the columns to be encoded.
        format_name: name of the format, for the message.

    Raises:
        FormatError: names the column, its type and what to do.
    """
    refuse_types(schema, _fault, format_name)
    for path, _ in walk(schema):
        if "\0" in path:
            raise FormatError(
                f"column {path!r} has a NUL character in its name, where Arrow ends a name: rename "
                f"it, or {format_name} would write a shorter one"
            )


def plan(schema: StructType, options: Mapping[str, str]) -> JsonEncoder:
    """Check types and options.

    Args:
        schema: of the columns to be encoded.
        options: by their names in lower case; those of Spark's to_json, behind "json.".

    Raises:
        FormatError: a type that JSON does not have, or an option's value.
    """
    check_types(schema, "value.format=json")
    ignores = options.get("json.ignorenullfields", "true").strip().lower()
    if ignores not in ("true", "false"):
        raise FormatError(f"json.ignoreNullFields = {ignores!r}: must be true or false")
    encoder = JsonEncoder(
        date_format=options.get("json.dateformat", _DATE),
        timestamp_format=options.get("json.timestampformat", _TIMESTAMP),
        timestamp_ntz_format=options.get("json.timestampntzformat", _TIMESTAMP_NTZ),
        time_zone=options.get("json.timezone", "").strip(),
        ignores_null_fields=ignores == "true",
    )
    try:
        _native(encoder)
        if encoder.time_zone:
            zone_offsets(encoder.time_zone)
    except ValueError as error:
        raise FormatError(str(error)) from error
    return encoder


def _fault(kind: DataType) -> str | None:
    if isinstance(kind, VariantType):
        return "cast it to a string with to_json(), or leave it out"
    if isinstance(kind, (AnsiIntervalType, CalendarIntervalType)) or (
        type(kind).__name__ in _SPATIAL
    ):
        return "cast it to a string, or leave it out"
    if isinstance(kind, MapType):
        key = kind.keyType
        if isinstance(key, (BinaryType, ArrayType, StructType, MapType, VariantType)):
            return (
                f"keys of type {key.simpleString()} have no text of their own (Spark's to_json "
                f"writes a Java object's name); cast them to strings with transform_keys()"
            )
    return None
