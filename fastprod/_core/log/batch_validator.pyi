"""What a log asks of a batch before it takes it, and what it writes into it (B-C2, B-D1)."""

from collections.abc import Iterable
from typing import Final, final

from typing_extensions import Buffer

VALIDATE_NONE: Final[int]
"""Only the header: what the log itself needs to be right."""
VALIDATE_CRC: Final[int]
"""The header and the CRC."""
VALIDATE_FULL: Final[int]
"""What Apache Kafka looks at: the CRC, and every record, decompressed (B-D1.3)."""

class InvalidBatch(Exception):
    """A produced batch is refused; nothing was changed.

    Attributes:
        error_code: Kafka's, for the partition's answer.
        message: one sentence with the numbers.
        record_errors: (index in the batch, why), the first 100 at most; () when the whole batch
            is at fault.
    """

    error_code: int
    message: str
    record_errors: tuple[tuple[int, str], ...]
    def __init__(
        self, error_code: int, message: str, record_errors: Iterable[tuple[int, str]] = ()
    ) -> None: ...

@final
class BatchInfo:
    """What the header of a batch says; timestamps are milliseconds since the epoch. Immutable."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raise TypeError."""
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def partition_leader_epoch(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int:
        """Of the records, -1 if none has any; what the header says if they were not looked at."""
    @property
    def max_timestamp_delta(self) -> int:
        """Offset delta of the first record with `max_timestamp`; -1 if they were not looked at."""
    @property
    def producer_id(self) -> int:
        """-1: not idempotent."""
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; after 2**31 - 1 comes 0. -1 without a sequence."""
    @property
    def record_count(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def is_log_append_time(self) -> bool: ...
    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""

def validate(
    batch: Buffer,
    mode: int,
    max_message_bytes: int,
    codec_limit: int,
    *,
    key_required: bool = False,
    log_append_time: bool = False,
    now_ms: int = 0,
    before_max_ms: int = ...,
    after_max_ms: int = ...,
) -> BatchInfo:
    """Look at what a producer sent for one partition (LogValidator, B-D1).

    Any thread; without the GIL from 4 KiB on. Does not block.

    Args:
        batch: exactly one batch v2.
        mode: VALIDATE_NONE, VALIDATE_CRC or VALIDATE_FULL.
        max_message_bytes: largest batch, header included (max.message.bytes); -1: any.
        codec_limit: most bytes of its decompressed records; the batch's size if that is more.
        key_required: the topic is compacted: each record needs a key.
        log_append_time: the log stamps the records itself: theirs may be anything.
        now_ms: the broker's clock, from 0, for the next two.
        before_max_ms: how old a record's timestamp may be; default: any.
        after_max_ms: how far ahead of the clock it may be; default: any.

    Raises:
        InvalidBatch: the batch is refused.
        ValueError: `mode` or a time is out of range.
        MemoryError: no memory for the decompressed records.
    """

def stamp(
    batch: Buffer,
    base_offset: int,
    leader_epoch: int,
    max_timestamp: int,
    log_append_time: bool = False,
) -> None:
    """Write the log's fields into a validated batch, in place (B-C2.1, B-C2.2).

    Base offset and leader epoch lie before the bytes that the CRC covers. Where `max_timestamp`
    or the timestamp type differ from what the batch says, these and the CRC are written too.

    Raises:
        ValueError: not one batch.
        BufferError: `batch` is not writable.
    """

def inspect(log: Buffer, at: int, check_crc: bool = True) -> BatchInfo | None:
    """The batch that starts at byte `at` of a log, or None if no whole, sound one does (B-C8.3).

    None too for a length that points past the end, and for zeros. Any thread; the CRC of a batch
    from 4 KiB on is taken without the GIL. Record by record nothing is looked at.
    """
