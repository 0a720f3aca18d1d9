"""Encoder: the interface of a format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow


class Encoder(Protocol):
    """Turns typed columns into one column of bytes; made on the driver, pickled into the tasks."""

    def encode(self, rows: pyarrow.RecordBatch) -> pyarrow.Array:
        """Return one cell of bytes for each row.

        Args:
            rows: the columns that the format was planned with, in their order.

        Returns:
            As many cells of binary, large_binary, string or large_string; null: a null value.

        Raises:
            BadRow: a row cannot be written in this format; the message says why.
            TypeError, ValueError: the arrays have other types than planned.
        """
