"""Patience: how long a send may wait before its record is queued."""

from __future__ import annotations

import time


class Patience:
    """Runs out so many milliseconds after it was made.

    Args:
        longest_ms: how many; 0 or more.
        transaction: which one is open; 0: there are none.

    Attributes:
        longest_ms, transaction: the same.

    Threads: any.
    """

    def __init__(self, longest_ms: int, transaction: int = 0) -> None:
        self.longest_ms = longest_ms
        self.transaction = transaction
        self._end_s = time.monotonic() + longest_ms / 1000

    @property
    def left_s(self) -> float:
        """What is left of it; 0 when it has run out."""
        return max(0.0, self._end_s - time.monotonic())

    @property
    def left_ms(self) -> int:
        """The same, in whole milliseconds."""
        return int(self.left_s * 1000)
