"""Cleanable: which part of a log is to be compacted now, and when to look again.

Source: LogCleanerManager of Apache Kafka; KIP-58, KIP-354; contract B-C4.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.segment import Segment


class Cleanable(NamedTuple):
    """The part of a log that can be compacted.

    Attributes:
        segments: those that may be rewritten, oldest first.
        first_dirty: nothing from here on was compacted.
        end: nothing from here on can be: it is being written, undecided, or too young.
        is_due: whether it is time.
        again_ms: in so many milliseconds it may be time, without further appends; None: not.
    """

    segments: Sequence[Segment]
    first_dirty: int
    end: int
    is_due: bool
    again_ms: int | None


def find_cleanable(
    segments: Sequence[Segment], config: LogConfig, cleaned_offset: int, limit: int, now_ms: int
) -> Cleanable:
    """See what of a log can be compacted.

    Args:
        segments: of the log, the active one last.
        config: of the log.
        cleaned_offset: how far it was compacted before.
        limit: the last stable offset, or the high watermark if that is lower.
        now_ms: by the broker's clock.
    """
    end, again_ms = 0, None
    if segments:
        end = min(segments[-1].base_offset, limit)
        first = segments[0].base_offset
        # Somebody may have removed what was compacted.
        cleaned_offset = max(cleaned_offset, first)
    for segment in segments[:-1]:
        left_ms = segment.max_timestamp + config.min_compaction_lag_ms - now_ms
        if segment.base_offset >= cleaned_offset and left_ms > 0 and config.min_compaction_lag_ms:
            end = min(end, segment.base_offset)
            again_ms = left_ms
            break
    found = [each for each, following in pairwise(segments) if following.base_offset <= end]
    end = segments[len(found)].base_offset if found else cleaned_offset
    ends = [each.base_offset for each in segments[1 : len(found) + 1]]
    dirty = [each for each, its_end in zip(found, ends, strict=True) if its_end > cleaned_offset]
    clean_bytes = sum(each.size_bytes for each in found) - sum(each.size_bytes for each in dirty)
    dirty_bytes = sum(each.size_bytes for each in dirty)
    is_due = dirty_bytes > 0 and (
        dirty_bytes / (clean_bytes + dirty_bytes) > config.min_cleanable_dirty_ratio
    )
    if dirty and not is_due:
        # Each record is compacted after max.compaction.lag.ms, whatever else.
        late_ms = now_ms - dirty[0].first_timestamp - config.max_compaction_lag_ms
        is_due = late_ms > 0
        if not is_due:
            again_ms = -late_ms + 1 if again_ms is None else min(again_ms, -late_ms + 1)
    return Cleanable(found, cleaned_offset, end, is_due, again_ms)
