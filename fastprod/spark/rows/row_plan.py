"""RowPlan: which column of a DataFrame becomes which part of a record.

Checks, their order and their messages are those of Spark's own Kafka sink (connector 4.2.0).  The
timestamp column and the header columns are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TEXT: Final[tuple[DataType, ...]] = (StringType(),)
_BYTES: Final[tuple[DataType, ...]] = (StringType(), BinaryType())
_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


class SchemaError(ValueError):
    """The DataFrame's columns cannot become records; the message says which, and what is wanted."""


@dataclass(frozen=True)
class RowPlan:
    """Columns of a record's parts: 0-based indexes; None: there is no such column.

    Attributes:
        value: of the values.
        key: of the keys.
        headers: of the arrays of headers.
        topic: of the topics; None when an option names the topic of all.
        partition: of the partitions; a null leaves it to the partitioner.
        timestamp: of the timestamps; a null is the time of writing.
        header_columns: (header's name, index of its column).
    """

    value: int
    key: int | None = None
    headers: int | None = None
    topic: int | None = None
    partition: int | None = None
    timestamp: int | None = None
    header_columns: tuple[tuple[str, int], ...] = ()


def row_plan(
    schema: StructType, topic: str | None, header_columns: tuple[tuple[str, str], ...] = ()
) -> RowPlan:
    """Find the columns by their exact names; others are ignored.

    Args:
        schema: the DataFrame's.
        topic: of all rows, by option; the topic column is then ignored.
        header_columns: (header's name, name of its column).

    Raises:
        SchemaError: a column is missing, has another type, or two have the same name.
    """
    columns = _Columns(schema)
    topic_column = None
    if topic is None:
        topic_column = columns.find("topic", _TEXT)
        if topic_column is None:
            raise SchemaError(
                "topic option required when no 'topic' attribute is present. Use the topic option "
                "for setting a topic."
            )
    key = columns.find("key", _BYTES)
    value = columns.find("value", _BYTES)
    if value is None:
        raise SchemaError("Required attribute 'value' not found")
    headers = columns.find("headers", (_HEADERS,))
    partition = columns.find("partition", (IntegerType(),))
    timestamp = columns.find("timestamp", (TimestampType(),))
    columns.refuse_doubles()
    return RowPlan(
        value=value,
        key=key,
        headers=headers,
        topic=topic_column,
        partition=partition,
        timestamp=timestamp,
        header_columns=tuple(
            (name, columns.header(name, column)) for name, column in header_columns
        ),
    )


class _Columns:
    """The columns of one schema, and which of them were looked up."""

    def __init__(self, schema: StructType) -> None:
        self._fields = schema.fields
        self._names = [each.name for each in schema.fields]
        self._used: list[str] = []

    def find(self, name: str, wanted: tuple[DataType, ...]) -> int | None:
        """Index of a column, or None if there is none; refuse any type but the wanted ones."""
        if name not in self._names:
            return None
        index = self._names.index(name)
        self._used.append(name)
        kind = self._fields[index].dataType
        if not any(_is_same(kind, each) for each in wanted):
            raise SchemaError(
                f"{name} attribute unsupported type {kind.simpleString()}. {name} must be a(n) "
                f"{' or '.join(each.simpleString() for each in wanted)}"
            )
        return index

    def header(self, name: str, column: str) -> int:
        """Index of the column that holds a header's values."""
        index = self.find(column, _BYTES)
        if index is None:
            raise SchemaError(
                f"Required attribute '{column}' not found: header.column.{name} names it; the "
                f"columns are {', '.join(self._names)}"
            )
        return index

    def refuse_doubles(self) -> None:
        """Refuse columns of the same name: rows reach Python by name, one would be lost."""
        for name in self._used:
            if self._names.count(name) > 1:
                raise SchemaError(
                    f"{self._names.count(name)} columns are named '{name}': a Python data source "
                    f"cannot tell them apart; rename or drop the others"
                )


def _is_same(kind: DataType, wanted: DataType) -> bool:
    """Whether the types are equal, apart from nullability and the case of fields' names."""
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return _is_same(kind.elementType, wanted.elementType)
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        pairs = zip(kind.fields, wanted.fields, strict=False)
        return len(kind.fields) == len(wanted.fields) and all(
            have.name.lower() == want.name.lower() and _is_same(have.dataType, want.dataType)
            for have, want in pairs
        )
    return kind == wanted
