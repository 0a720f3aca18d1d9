"""When a log begins a new segment (B-C4.4)."""

from __future__ import annotations

from typing import Final

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.segment import Segment

_INT32_MAX: Final = 2**31 - 1


def is_due(
    active: Segment,
    end_offset: int,
    info: BatchInfo,
    max_timestamp: int,
    config: LogConfig,
    now_ms: int,
) -> bool:
    """Whether a batch begins a new segment behind `active`.

    Args:
        active: the last segment.
        end_offset: of the log: where the batch goes.
        info: what the batch says of itself.
        max_timestamp: its maximum as it will be stored; -1: none.
        config: of the log.
        now_ms: by the broker's clock.
    """
    if active.size_bytes == 0:
        return False
    if active.size_bytes + info.size_bytes > config.segment_bytes or active.is_full:
        return True
    if end_offset + info.last_offset_delta - active.base_offset > _INT32_MAX:
        return True
    if active.first_timestamp >= 0 and max_timestamp >= 0:
        age_ms = max_timestamp - active.first_timestamp
    else:
        age_ms = now_ms - active.created_ms
    return age_ms > config.segment_ms - active.jitter_ms
