"""Record batches v2 as read from a log, a fetch response or a produce request (contract P-E)."""

from typing import NamedTuple, final

from typing_extensions import Buffer

class ReadRecord(NamedTuple):
    """One record as it was read.

    Attributes:
        offset: absolute offset (base offset of the batch plus the record's delta).
        timestamp: milliseconds since the epoch; the batch's `max_timestamp` if
            `is_log_append_time`.
        key: None if null.
        value: None if null.
        headers: (key, value or None) in order; keys that are not UTF-8 have their bad bytes
            replaced, as in Kafka's reader.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

class EndTransactionMarker(NamedTuple):
    """The content of a control record that ends a transaction (P-E.4).

    Attributes:
        version: of the key, 0 today.
        kind: 0 abort, 1 commit.
        coordinator_epoch: of the transaction coordinator that wrote it.
    """

    version: int
    kind: int
    coordinator_epoch: int

@final
class RecordBatch:
    """One batch whose length, magic and CRC are right. `read_batches` makes it.

    The properties are the header's fields (P-E.1); timestamps are milliseconds since the epoch, -1
    stands for none in the producer's fields. Immutable: any thread.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raise TypeError."""
    @property
    def base_offset(self) -> int: ...
    @property
    def batch_length(self) -> int:
        """Bytes after the length field."""
    @property
    def partition_leader_epoch(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd, 5..7 unknown."""
    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's clock stamped the records, not the producer's."""
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool:
        """Whether its record is a marker that readers of data skip (P-E.4)."""
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def next_offset(self) -> int:
        """The offset after this batch, whether or not its last records were compacted away."""
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def record_count(self) -> int:
        """What the header says; `records` finds out whether it is true."""
    @property
    def position(self) -> int:
        """Where the batch starts in the data given to `read_batches`."""
    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
    def raw(self) -> bytes:
        """Return the bytes of the batch, as they were."""
    def records(self) -> list[ReadRecord]:
        """Return the records, decompressed.

        Decompression runs without the GIL; nothing is kept between calls.

        Raises:
            InvalidRecordError: the records do not parse, or are not as many as the header says
                (P-E.3.4, P-E.3.5).
            CorruptRecordError: unknown codec, the compressed bytes are broken, or they grow above
                the limit given to `read_batches`.
            UnsupportedCompressionTypeError: the codec's library was not found here.
        """
    def body(self) -> bytes:
        """Return what follows the header, decompressed: the records, one after the other.

        Raises:
            CorruptRecordError: as `records`.
            UnsupportedCompressionTypeError: likewise.
        """
    def end_marker(self) -> EndTransactionMarker | None:
        """Return what a control batch says about its transaction (P-E.4).

        Returns:
            None for a batch of data, for control records of other kinds, and for a control batch
            whose record was compacted away.

        Raises:
            InvalidRecordError: there are several records, or the key or value is too short.
        """

def read_batches(
    data: Buffer, *, limit_bytes: int = ..., verify: bool = False
) -> list[RecordBatch]:
    """Read the batches that lie one after the other in `data`.

    Lengths, magic and CRC are checked here, records by `RecordBatch.records`. An incomplete batch
    at the end is ignored (ByteBufferLogInputStream, P-E.1).

    Args:
        data: anything with the buffer protocol; copied unless it is `bytes`.
        limit_bytes: largest batchLength, and most bytes of its decompressed records;
            default 100 MiB (Kafka's socket.request.max.bytes).
        verify: have the package crc32c compute each CRC too: code that is not ours.

    Raises:
        CorruptRecordError: a batch is too small, too large, not of magic 2, or fails its CRC; or
            with `verify` the package crc32c computes another than we do, whether or not ours is
            the header's. `base_offset`, `position`, `value` and `limit` hold the numbers.
    """
