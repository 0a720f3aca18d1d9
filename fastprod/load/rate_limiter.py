"""RateLimiter: limits a task to a number of bytes a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow
import pyarrow.compute

_PIECES_PER_SECOND: Final = 20


def payload_bytes(columns: Iterable[pyarrow.Array]) -> int:
    """Bytes in columns of strings or binary, without those by which Arrow finds each row."""
    lengths = (pyarrow.compute.binary_length(each) for each in columns)
    return sum(pyarrow.compute.sum(each).as_py() or 0 for each in lengths)


class RateLimiter:
    """Lets bytes pass at a steady rate, without a burst after a pause.

    Args:
        bytes_per_second: 0: no limit.
        clock_s: a monotonic clock, in seconds.
        sleep: waits so many seconds.

    Threads: one.
    """

    def __init__(
        self,
        bytes_per_second: int,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock_s = clock_s
        self._sleep = sleep
        self._due_s = clock_s()

    def pieces(self, row_count: int, byte_count: int) -> Iterator[slice]:
        """Yield the rows of a batch in pieces, each when the rate allows it.

        Args:
            row_count: rows of the batch.
            byte_count: bytes of the batch that are limited; rows count as equally long.

        Blocks: between two pieces, and before the first as long as earlier batches require.
        """
        if not self._bytes_per_second or not row_count:
            yield slice(0, row_count)
            return
        row_bytes = max(byte_count / row_count, 1.0)
        piece_rows = max(1, int(self._bytes_per_second / _PIECES_PER_SECOND / row_bytes))
        for start in range(0, row_count, piece_rows):
            stop = min(start + piece_rows, row_count)
            # What a pause would have earned is gone; what a sleep took too long is not.
            self._due_s = max(self._due_s, self._clock_s())
            self.wait()
            self._due_s += (stop - start) * row_bytes / self._bytes_per_second
            yield slice(start, stop)

    def wait(self) -> None:
        """Wait until the next piece may go, as a task does at its end for the worker's next one.

        Blocks: as long as the last pieces take at the rate.
        """
        left_s = self._due_s - self._clock_s()
        if left_s > 0:
            self._sleep(left_s)
