"""Which Spark types a format takes; an error names the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, UserDefinedType


class FormatError(ValueError):
    """A value cannot be encoded in the format; the message says why, and what to do."""


def refuse_types(
    schema: StructType, fault: Callable[[DataType], str | None], format_name: str
) -> None:
    """Raise for the first type, at any depth, that the format does not take.

    Args:
        schema: of the columns to be encoded.
        fault: returns why a type is refused and what to do, or None; it is called for nested types
            separately.
        format_name: for the message.

    Raises:
        FormatError: names the column, its type and what to do.
    """
    for path, kind in walk(schema):
        reason = fault(kind)
        if reason is not None:
            raise FormatError(
                f"column {path!r} is of type {kind.simpleString()}, which {format_name} does not "
                f"take: {reason}"
            )


def walk(schema: StructType) -> Iterator[tuple[str, DataType]]:
    """Yield the path and type of each column, and of each type nested in it."""
    for field in schema.fields:
        yield from _walk(field.name, field.dataType)


def _walk(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    yield path, kind
    if isinstance(kind, UserDefinedType):
        yield from _walk(path, kind.sqlType())
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from _walk(f"{path}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _walk(f"{path}.element", kind.elementType)
    elif isinstance(kind, MapType):
        yield from _walk(f"{path}.key", kind.keyType)
        yield from _walk(f"{path}.value", kind.valueType)
