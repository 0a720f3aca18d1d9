"""Messages one after another in one buffer, as an Arrow array."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable
from typing import Any

import pyarrow

from fastprod.spark.bad_row import BadRow


def message_array(
    rows: list[dict[str, Any]], write: Callable[[io.BytesIO, dict[str, Any]], object]
) -> pyarrow.Array:
    """Write each row into the buffer.

    Args:
        rows: by the names of their columns.
        write: appends one message.

    Raises:
        BadRow: a row has no form in the format.
    """
    out = io.BytesIO()
    offsets = array("q", [0])
    for index, row in enumerate(rows):
        try:
            write(out, row)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise BadRow(index, f"cannot be encoded: {type(error).__name__}: {error}") from error
        offsets.append(out.tell())
    return pyarrow.Array.from_buffers(
        pyarrow.large_binary(),
        len(rows),
        [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(out.getvalue())],
    )
