"""Bytes as they are: one column of strings or binary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, StringType, StructType

from fastprod.spark.formats.column_types import FormatError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class RawEncoder:
    """Passes the one column on."""

    def encode(self, rows: pyarrow.RecordBatch) -> pyarrow.Array:
        """The column itself; see `Encoder.encode`."""
        return rows.column(0)


def plan(schema: StructType, part: str) -> RawEncoder:
    """Check that there is one column, of bytes.

    Args:
        schema: of the columns to be encoded.
        part: "value" or "key", for messages.

    Raises:
        FormatError: there are more, or it has another type.
    """
    if len(schema.fields) != 1:
        raise FormatError(
            f"{part}.format=raw takes one column, not {len(schema.fields)} "
            f"({', '.join(schema.fieldNames())}): name it in {part}.columns, or choose another "
            f"format"
        )
    kind = schema.fields[0].dataType
    if not isinstance(kind, (BinaryType, StringType)):
        raise FormatError(
            f"column {schema.fields[0].name!r} is of type {kind.simpleString()}; {part}.format=raw "
            f"takes a string or binary: cast it, or choose another format"
        )
    return RawEncoder()
