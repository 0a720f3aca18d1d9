"""Which part of a log is to be compacted, and when (B-C4.6)."""

from __future__ import annotations

from typing import Any

from fastprod.broker.log.cleaning.cleanable import Cleanable, find_cleanable
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.memory_segment import MemorySegment
from fastprod.broker.log.segments.segment import Appended, Segment
from support.broker.log_batches import TIME, batch


def segments(*sizes: int) -> list[Segment]:
    """Segments of so many batches, each a millisecond younger; offsets count batches."""
    made: list[Segment] = []
    offset = 0
    for size in sizes:
        segment = MemorySegment(offset, TIME, 1_000_000)
        for _ in range(size):
            data = batch(1, base_offset=offset, timestamp=TIME + offset)
            segment.append(Appended(data, offset, offset, TIME + offset))
            offset += 1
        made.append(segment)
    return made


def find(
    made: list[Segment], cleaned: int = 0, limit: int = 10**9, now: int = 100, **config: Any
) -> Cleanable:
    return find_cleanable(made, LogConfig(compact=True, **config), cleaned, limit, TIME + now)


def test_the_active_segment_is_left_alone() -> None:
    """B-C4.6"""
    made = segments(2, 2, 2)
    found = find(made)
    assert (list(found.segments), found.end, found.is_due) == (made[:2], 4, True)
    assert not find(segments(5)).is_due
    assert not find([]).is_due


def test_what_is_undecided_or_not_everywhere_is_left_alone() -> None:
    """B-C4.6: the last stable offset, the high watermark."""
    made = segments(2, 2, 2)
    assert find(made, limit=3).segments == made[:1]
    assert not find(made, limit=1).is_due


def test_it_is_time_when_enough_is_dirty() -> None:
    """min.cleanable.dirty.ratio"""
    made = segments(3, 1, 1)
    assert find(made).is_due
    assert not find(made, cleaned=3).is_due
    assert find(made, cleaned=3, min_cleanable_dirty_ratio=0.2).is_due
    assert not find(made, cleaned=4, min_cleanable_dirty_ratio=0).is_due


def test_young_records_wait() -> None:
    """min.compaction.lag.ms: and it is known how long."""
    made = segments(2, 2, 2)
    found = find(made, min_compaction_lag_ms=98)
    assert (list(found.segments), found.again_ms) == (made[:1], 1)
    assert find(made, now=101, min_compaction_lag_ms=98).segments == made[:2]


def test_old_records_do_not_wait_for_others() -> None:
    """max.compaction.lag.ms: whatever the ratio."""
    made = segments(9, 1, 1)
    assert not find(made, cleaned=9, now=59, max_compaction_lag_ms=50).is_due
    assert find(made, cleaned=9, now=59, max_compaction_lag_ms=50).again_ms == 1
    assert find(made, cleaned=9, now=60, max_compaction_lag_ms=50).is_due
