"""Which segments at the front of a log are due for deletion (B-C4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.segment import Segment


def count_due(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    """How many segments at the front are too old, or above the size that is kept.

    One that compaction has left empty goes along with the next one; the active one stays if it is.
    """
    surplus_bytes = 0
    if config.retention_bytes >= 0:
        surplus_bytes = sum(each.size_bytes for each in segments) - config.retention_bytes
    count = 0
    for at, segment in enumerate(segments):
        if segment.size_bytes == 0:
            continue
        surplus_bytes -= segment.size_bytes
        is_surplus = config.retention_bytes >= 0 and surplus_bytes >= 0
        if not is_surplus and not _is_old(segment, config, now_ms):
            break
        count = at + 1
    return count


def _is_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    return config.retention_ms >= 0 and now_ms - _newest_ms(segment) > config.retention_ms


def _newest_ms(segment: Segment) -> int:
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms


def wait_ms(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int | None:
    """Milliseconds until the first segment is too old; None: never."""
    first = next((each for each in segments if each.size_bytes > 0), None)
    if config.retention_ms < 0 or first is None:
        return None
    return max(_newest_ms(first) + config.retention_ms + 1 - now_ms, 0)


def count_below(segments: Sequence[Segment], start_offset: int, end_offset: int) -> int:
    """How many segments lie wholly below `start_offset`, in a log that ends at `end_offset`."""
    ends = [segment.base_offset for segment in segments[1:]]
    return sum(1 for end in [*ends, end_offset][: len(segments)] if end <= start_offset)
