"""Which segments at the front of a log are due for deletion (B-C4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.segment import Segment


def count_due(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    """How many segments at the front are too old, or above the size that is kept."""
    return max(_count_old(segments, config, now_ms), _count_surplus(segments, config))


def _count_old(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    if config.retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        # The active one may be empty, and others that were compacted.
        is_new = segment.size_bytes == 0 and segment is segments[-1]
        if now_ms - _newest_ms(segment) <= config.retention_ms or is_new:
            return count
    return len(segments)


def _newest_ms(segment: Segment) -> int:
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms


def _count_surplus(segments: Sequence[Segment], config: LogConfig) -> int:
    if config.retention_bytes < 0:
        return 0
    surplus = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    for count, segment in enumerate(segments):
        surplus -= segment.size_bytes
        if surplus < 0 or segment.size_bytes == 0:
            return count
    return len(segments)


def wait_ms(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int | None:
    """Milliseconds until the first segment is too old; None: never."""
    if config.retention_ms < 0 or not segments or segments[0].size_bytes == 0:
        return None
    return max(_newest_ms(segments[0]) + config.retention_ms + 1 - now_ms, 0)


def count_below(segments: Sequence[Segment], start_offset: int, end_offset: int) -> int:
    """How many segments lie wholly below `start_offset`, in a log that ends at `end_offset`."""
    ends = [segment.base_offset for segment in segments[1:]]
    return sum(1 for end in [*ends, end_offset][: len(segments)] if end <= start_offset)
