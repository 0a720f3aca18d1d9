"""LogConfig: the settings of a partition's log, from its topic and the broker."""

from __future__ import annotations

from typing import Final, Literal

from fastprod._core.log.batch_validator import VALIDATE_CRC, VALIDATE_FULL, VALIDATE_NONE
from fastprod.frozen import FrozenRecord

Validation = Literal["full", "crc", "none"]
Sync = Literal["never", "batch", "interval"]

VALIDATION_MODES: Final[dict[str, int]] = {
    "full": VALIDATE_FULL,
    "crc": VALIDATE_CRC,
    "none": VALIDATE_NONE,
}
SYNC_MODES: Final = ("never", "batch", "interval")

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_DAY_MS: Final = 86_400_000

_RANGES: Final[dict[str, tuple[int, int]]] = {
    "segment_bytes": (1, _INT32_MAX),
    "segment_ms": (1, _INT64_MAX),
    "segment_jitter_ms": (0, _INT64_MAX),
    "segment_index_bytes": (12, _INT32_MAX),
    "index_interval_bytes": (0, _INT32_MAX),
    "retention_ms": (-1, _INT64_MAX),
    "retention_bytes": (-1, _INT64_MAX),
    "max_message_bytes": (0, _INT32_MAX),
    "codec_limit_bytes": (1, _INT64_MAX),
    "timestamp_before_max_ms": (0, _INT64_MAX),
    "timestamp_after_max_ms": (0, _INT64_MAX),
    "producer_id_expiration_ms": (1, _INT64_MAX),
    "producer_batches": (1, 1_000),
    "delete_retention_ms": (0, _INT64_MAX),
    "min_cleanable_dirty_ratio": (0, 1),
    "min_compaction_lag_ms": (0, _INT64_MAX),
    "max_compaction_lag_ms": (1, _INT64_MAX),
    "cleaner_buffer_bytes": (0, _INT64_MAX),
}


class LogConfig(FrozenRecord):
    """Settings of one log; Kafka's defaults. May be shared by many logs.

    Attributes:
        segment_bytes: a segment is rolled before it grows beyond; also the largest batch. Kafka
            allows 1 MiB and more for a topic; here 1 byte and more.
        segment_ms: a segment is rolled when its first batch is older.
        segment_jitter_ms: `segment_ms` is shortened by a random part of this, for each segment.
        segment_index_bytes: largest index of a segment in files.
        index_interval_bytes: bytes between two entries of an index.
        retention_ms: age at which a segment is deleted; -1: none.
        retention_bytes: size that old segments are deleted down to; -1: none.
        max_message_bytes: largest batch, header included.
        codec_limit_bytes: most bytes of a batch's decompressed records.
        compact: each record needs a key, and goes when a newer one of its key has come (B-C4.6).
        log_append_time: the broker's clock stamps the records (B-C2.2).
        timestamp_before_max_ms: how old a record may be.
        timestamp_after_max_ms: how far ahead of the broker's clock a record may be.
        validation: "full", "crc" or "none" (B-D1.3).
        sync: when records are fsynced: "never" (no sooner than by `flush`, `close`, or after their
            segment is complete), "batch" (before an append returns), "interval" (when the upkeep
            calls `flush`) (B-C8.1).
        producer_id_expiration_ms: silence after which a producer is forgotten (B-C6.6).
        producer_batches: last batches of a producer that are recognized when they come again;
            Kafka's 5 (B-C6.5).
        delete_retention_ms: compaction keeps tombstones for so long after it has met them.
        min_cleanable_dirty_ratio: the log is compacted when so much of what can be compacted has
            not been: 0 to 1.
        min_compaction_lag_ms: a record is not compacted before this age.
        max_compaction_lag_ms: the log is compacted when a record is older, whatever the ratio.
        cleaner_buffer_bytes: what compaction may take to remember keys.

    Raises:
        ValueError: a setting is out of its range.
    """

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    codec_limit_bytes: int = 104_857_600
    compact: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = _INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    validation: Validation = "full"
    sync: Sync = "never"
    producer_id_expiration_ms: int = _DAY_MS
    producer_batches: int = 5
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    cleaner_buffer_bytes: int = 16 * 1024 * 1024

    def _check(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}, it must be {least} to {most}")
        if self.validation not in VALIDATION_MODES:
            raise ValueError(
                f"validation is {self.validation!r}, it must be one of "
                f"{', '.join(VALIDATION_MODES)}"
            )
        if self.sync not in SYNC_MODES:
            raise ValueError(f"sync is {self.sync!r}, it must be one of {', '.join(SYNC_MODES)}")
