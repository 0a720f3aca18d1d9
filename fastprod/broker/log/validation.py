"""The checks of a produced batch before a log takes it (B-C4.1, B-D1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastprod._core.log.batch_validator import BatchInfo, InvalidBatch, validate
from fastprod.broker.log.log_config import VALIDATION_MODES, LogConfig
from fastprod.broker.log.log_error import LogError
from fastprod.error_codes import MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HeavyBatch(Exception):
    """Checking a batch takes longer than the caller allows."""


def validate_produced(
    batch: Buffer, config: LogConfig, now_ms: int, most_bytes: int | None = None
) -> BatchInfo:
    """Check a batch, and return what its headers and records say.

    Args:
        batch: as the producer sent it.
        config: of the log.
        now_ms: by the broker's clock.
        most_bytes: decompress no more than this; None: than the log allows.

    Raises:
        InvalidBatch: it is not acceptable (B-D1).
        HeavyBatch: acceptable so far, but it needs more than `most_bytes`.
        LogError: it does not fit in a segment (18).
    """
    limit_bytes = config.codec_limit_bytes
    if most_bytes is not None:
        limit_bytes = min(most_bytes, limit_bytes)
    try:
        info = validate(
            batch,
            VALIDATION_MODES[config.validation],
            config.max_message_bytes,
            limit_bytes,
            key_required=config.compact,
            log_append_time=config.log_append_time,
            now_ms=now_ms,
            before_max_ms=config.timestamp_before_max_ms,
            after_max_ms=config.timestamp_after_max_ms,
        )
    except InvalidBatch as error:
        is_heavy = error.error_code == MESSAGE_TOO_LARGE and limit_bytes == most_bytes
        if is_heavy and not 0 <= config.max_message_bytes < memoryview(batch).nbytes:
            raise HeavyBatch from None
        raise
    if info.size_bytes > config.segment_bytes:
        raise LogError(
            RECORD_LIST_TOO_LARGE,
            f"the batch takes {info.size_bytes} bytes, more than segment.bytes = "
            f"{config.segment_bytes}",
        )
    return info
