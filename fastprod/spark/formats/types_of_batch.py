"""Casts the columns of a batch, and what is nested in them, to other types."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow

TypeChange = Callable[[pyarrow.DataType], pyarrow.DataType]


def with_types(rows: pyarrow.RecordBatch, change: TypeChange) -> pyarrow.RecordBatch:
    """Return the rows with other types; names and nulls stay.

    Fields may be null then, whatever was declared: below a null struct Arrow has nulls in each.

    Args:
        rows: columns of any types.
        change: the type in place of one that holds no others; the same one leaves it.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its new type.
    """
    return pyarrow.RecordBatch.from_arrays(
        [column.cast(_changed(column.type, change)) for column in rows.columns],
        names=rows.schema.names,
    )


def _changed(kind: pyarrow.DataType, change: TypeChange) -> pyarrow.DataType:
    types = pyarrow.types
    if types.is_struct(kind):
        return pyarrow.struct([_field(each, change) for each in kind])
    if types.is_map(kind):
        return pyarrow.map_(kind.key_type, _field(kind.item_field, change))
    if types.is_list(kind) or types.is_large_list(kind):
        field = _field(kind.value_field, change)
        return pyarrow.list_(field) if types.is_list(kind) else pyarrow.large_list(field)
    return change(kind)


def _field(field: pyarrow.Field, change: TypeChange) -> pyarrow.Field:
    return field.with_type(_changed(field.type, change)).with_nullable(True)
