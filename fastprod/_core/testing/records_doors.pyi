"""Doors to the batch writer and the header encoder."""

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from typing_extensions import Buffer

def encode_headers_for_test(
    headers: Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None],
) -> bytes:
    """Encode headers as a record holds them, their count first (P-E.3).

    Args:
        headers: (name, value) pairs or a dict.

    Raises:
        TypeError: a name is no str, or a value neither a contiguous buffer nor None.
        ValueError: they do not fit a record, or changed meanwhile.
    """

def encode_small_headers_for_test(headers: object) -> bytes | None:
    """Encode headers of the usual kind as `encode_headers_for_test` does, into a fixed room.

    Args:
        headers: a list or tuple of (str, bytes or None) tuples; None for anything else.

    Raises:
        UnicodeEncodeError: a name has a lone surrogate.
        AssertionError: something was written behind the room.
    """

@final
class BatchForTest:
    """One batch with a pool, a result and a compressor of its own. Threads: one at a time."""

    def __init__(
        self,
        codec: int = 0,
        level: int | None = None,
        slab_bytes: Sequence[int] = (),
        pool_bytes: int = 0,
    ) -> None:
        """Open a batch.

        Args:
            codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
            level: the codec's; None: no compressor at all, whatever the codec.
            slab_bytes: sizes of heap slabs to write into, over and over; empty: the pool's slabs.
            pool_bytes: size of the pool.

        Raises:
            MemoryError: the pool was refused.
        """
    def reserve(self, size_bytes: int) -> None:
        """Add slabs until there is room for so many bytes. Raises as `append`."""
    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None = None,
        lent: bool = False,
    ) -> int:
        """Append a record; `headers` is encoded already, its count first. `lent`: without copying
        the value, whatever its size.

        Returns:
            The bytes that `record_size` said it takes.

        Raises:
            OSError: the pool is exhausted.
            ValueError: the record is larger than the pool.
        """
    def append_run(
        self,
        records: Sequence[tuple[int, bytes | None, bytes | None, bytes | None]],
        most_bytes: int,
    ) -> int:
        """Append the first of these, given as to `append`, as long as it is sure that they take no
        more than `most_bytes` and fit the slab that is being written.

        Returns:
            How many it took, perhaps none.
        """
    def remove(self, indexes: Sequence[int]) -> None:
        """Take out these records, not all; ascending indexes. Before the seal, and once."""
    def seal(self) -> None:
        """Compress, sum, and give unused slabs back; a second time does nothing.

        Raises:
            ValueError: the batch has a codec and no compressor.
        """
    def header(
        self,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """Return the 61 bytes in front of the records; the batch must be sealed."""
    def body(self) -> bytes:
        """Return the records part; the batch must be sealed."""
    def slabs(self) -> list[tuple[int, int]]:
        """Return (bytes used, size) of each slab."""
    @property
    def counters(self) -> dict[str, int]:
        """Return count (records), record_bytes, wire_bytes, largest_record, room (bytes left),
        result_count (records, in its result), free_bytes and heap_bytes (the pool's)."""

def values_release_for_test() -> None:
    """Give back the references of lent values whose batches are gone."""

def record_upper_bound_for_test(
    key: bytes | None, value: bytes | None, headers: bytes | None = None
) -> int:
    """Return the most bytes a batch of this record alone can take (P-E.7.3)."""
