"""Producer ids: each is given away once, over all restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable

BLOCK_SIZE = 1000
"""How many ids are reserved at a time, as in Kafka."""


class ProducerIds:
    """Gives away producer ids. Any thread.

    Args:
        first: the first id that was never given away.
        reserve: writes down, before one of them is given away, that every id below may be in use;
            None: nothing is kept after this process.
    """

    def __init__(self, first: int = 0, reserve: Callable[[int], None] | None = None) -> None:
        self._next = first
        self._reserved_end = first
        self._reserve = reserve
        self._lock = threading.Lock()

    def take(self) -> int:
        """Return an id that was never returned before.

        Raises:
            OSError: the next block could not be written down.
        """
        with self._lock:
            if self._reserve is not None and self._next >= self._reserved_end:
                end = self._next + BLOCK_SIZE
                self._reserve(end)
                self._reserved_end = end
            taken = self._next
            self._next += 1
            return taken
