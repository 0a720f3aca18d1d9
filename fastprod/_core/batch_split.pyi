"""What Python sees of `batch_split`; splitting is native (see batch_split.pxd)."""

from typing import Any, final

from fastprod._core.record_batch import BatchForTest

@final
class SplitsForTest:
    """A partition with one batch in flight, and what splitting makes of it. Threads: one."""

    def __init__(
        self, parent: BatchForTest, batch_bytes: int, created_ns: int = 0, sequence: int = -1
    ) -> None:
        """Put `parent` in flight.

        Args:
            parent: a batch, sealed or not.
            batch_bytes: batch.size.
            created_ns: when it was opened.
            sequence: its base sequence; -1: it has none.
        """
    def split(self, place: int = 0) -> int:
        """Split one batch in flight, and seal what became of it.

        Args:
            place: in sequence order, from 0.

        Returns:
            The number of children.

        Raises:
            MemoryError: there was none left; nothing has changed.
            ValueError: the batch does not parse; nothing has changed.
        """
    def flights(self) -> list[dict[str, Any]]:
        """Return the batches in flight in sequence order: data (with its header), created_ns,
        last_attempt_ns, attempts, was_split, is_closed, plain_bytes (uncompressed, with its
        header) and result_sequence."""
    def place_of(self, index: int) -> tuple[int, int]:
        """Return the place of the batch that has record `index` of the parent, and its index."""
    @property
    def counters(self) -> dict[str, int]:
        """Return heap_bytes (out now), pool_free_bytes and incomplete (results on the list)."""
