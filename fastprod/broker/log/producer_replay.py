"""Rebuilds from batches what a log knows of its producers and of their transactions (B-C6.7)."""

from __future__ import annotations

from collections.abc import Sequence

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker, read_marker
from fastprod.broker.log.producer_states import ProducerStates
from fastprod.broker.log.segments.segment import Segment
from fastprod.broker.log.transaction_index import AbortedTxn, TransactionIndex


def end_transaction(
    producers: ProducerStates,
    index: TransactionIndex,
    marker: EndTransactionMarker,
    offset: int,
    timestamp: int,
    now_ms: int,
    base_offset: int,
) -> None:
    """Note a marker: readers learn of an abort before its records count as decided.

    Args:
        producers: of the log.
        index: of the log.
        marker: what it says.
        offset: where it lies.
        timestamp: its own, milliseconds since 1970.
        now_ms: by the broker's clock.
        base_offset: of its segment.

    Raises:
        OSError: the index cannot be written.
    """
    first_offset = producers.first_offset_of(marker.producer.id)
    if first_offset >= 0 and not marker.is_commit:
        others = producers.undecided_without(marker.producer.id)
        stable = offset + 1 if others is None else others
        aborted = AbortedTxn(marker.producer.id, first_offset, offset, stable)
        index.append(aborted, base_offset)
    producers.end_transaction(marker, timestamp, now_ms)


def replay(
    segments: Sequence[Segment],
    from_offset: int,
    producers: ProducerStates,
    index: TransactionIndex,
    now_ms: int,
) -> None:
    """Add what the batches from an offset on say.

    Raises:
        OSError: they cannot be read.
    """
    for i, segment in enumerate(segments):
        if i + 1 < len(segments) and segments[i + 1].base_offset <= from_offset:
            continue
        for info in segment.batches_at(max(from_offset, segment.base_offset)):
            if info.producer_id >= 0 and info.base_offset >= from_offset:
                _replay_batch(segment, info, producers, index, now_ms)


def _replay_batch(
    segment: Segment, info: BatchInfo, producers: ProducerStates, index: TransactionIndex, now: int
) -> None:
    if not info.is_control:
        producers.add(info, info.base_offset, info.max_timestamp, now)
        return
    marker = read_marker(segment, info.base_offset)
    if marker is not None:
        base_offset = segment.base_offset
        timestamp = info.max_timestamp
        end_transaction(producers, index, marker, info.base_offset, timestamp, now, base_offset)
