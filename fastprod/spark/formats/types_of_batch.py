"""Casts the columns of a batch, and what is nested in them, to other types."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow

TypeChange = Callable[[pyarrow.DataType], pyarrow.DataType]


def with_types(rows: pyarrow.RecordBatch, change: TypeChange) -> pyarrow.RecordBatch:
    """Return the rows with other types; names and nulls stay.

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
        return pyarrow.struct([field.with_type(_changed(field.type, change)) for field in kind])
    if types.is_map(kind):
        item = kind.item_field
        return pyarrow.map_(kind.key_type, item.with_type(_changed(item.type, change)))
    if types.is_list(kind) or types.is_large_list(kind):
        field = kind.value_field.with_type(_changed(kind.value_type, change))
        return pyarrow.list_(field) if types.is_list(kind) else pyarrow.large_list(field)
    return change(kind)
