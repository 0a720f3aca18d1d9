"""BadRow: a row that cannot become a record."""

from __future__ import annotations


class BadRow(ValueError):
    """A row that cannot become a record; its batch is one of Spark's.

    Attributes:
        index: 0-based, in the batch.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
