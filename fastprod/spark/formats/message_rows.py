"""Messages one after another in one buffer, as an Arrow array."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable
from typing import Any, Final

import pyarrow

from fastprod.spark.rows.bad_row import BadRow

_FAULTS: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError)


def message_array(
    rows: pyarrow.RecordBatch, write: Callable[[io.BytesIO, dict[str, Any]], object]
) -> pyarrow.Array:
    """Write each row into the buffer.

    Args:
        rows: columns of any types.
        write: appends the message of one row, which is a dict by column name.

    Raises:
        BadRow: a row cannot be written in the format, or has values that Python cannot hold.
    """
    out = io.BytesIO()
    offsets = array("q", [0])
    for index, row in enumerate(_objects(rows)):
        try:
            write(out, row)
        except _FAULTS as error:
            raise _bad_row(index, error) from error
        offsets.append(out.tell())
    return pyarrow.Array.from_buffers(
        pyarrow.large_binary(),
        rows.num_rows,
        [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(out.getvalue())],
    )


def _objects(rows: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    try:
        return _listed(rows)
    except _FAULTS:
        # Arrow does not say which row. Python's times end with 9999, its dicts have unique keys.
        for index in range(rows.num_rows):
            try:
                _listed(rows.slice(index, 1))
            except _FAULTS as error:
                raise _bad_row(index, error) from error
        raise


def _listed(rows: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="strict")
    return found


def _bad_row(index: int, error: Exception) -> BadRow:
    return BadRow(index, f"cannot be encoded: {type(error).__name__}: {error}")
