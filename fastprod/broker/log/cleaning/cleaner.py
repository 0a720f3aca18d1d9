"""Cleaner: rewrites segments of a log without the records that newer ones of their keys replace.

The newest offset of each key of the part that was not compacted yet goes into a map. Then all
segments up to there are copied, neighbours into one as long as it does not get too large, and each
copy takes the place of what it was made from. The active segment is never touched. Offsets do not
change; a tombstone goes `delete.retention.ms` after it was first met, a marker when no record of
its transaction is left, and then as late as a tombstone; the last batch of a producer stays at
least as a header, by which its next sequence is known.

Source: Cleaner of Apache Kafka; contract B-C4.6.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from fastprod._core.records.record_reader import RecordBatch, read_batches
from fastprod.broker.log.cleaning.batch_filter import (
    RecordPart,
    delete_horizon_ms,
    parts_of,
    rebuilt,
)
from fastprod.broker.log.cleaning.cleanable import find_cleanable
from fastprod.broker.log.cleaning.cleaned_transactions import CleanedTransactions
from fastprod.broker.log.cleaning.offset_map import OffsetMap
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_error import LogError
from fastprod.broker.log.segments.segment import Appended, Segment
from fastprod.error_codes import KAFKA_STORAGE_ERROR

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 1024 * 1024
_LARGEST_BATCH_BYTES: Final = 2**31 - 1
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


class CleaningStopped(Exception):
    """The broker ends, or the log's end was cut off; what is not in its place yet is left out."""


class _Pass(NamedTuple):
    """One pass over a log.

    Attributes:
        log: it.
        config: of it.
        newest: of each key.
        transactions: seen on the way.
        last_data: offset of the last batch of each producer, None if it has written a marker alone.
        epochs: of each producer.
        high_watermark: of the log.
        now_ms: by the broker's clock.
        truncations: of the log, before anything was read.
        is_stopped: whether the broker ends, or there was another truncation.
    """

    log: Log
    config: LogConfig
    newest: OffsetMap
    transactions: CleanedTransactions
    last_data: dict[int, int | None]
    epochs: dict[int, int]
    high_watermark: int
    now_ms: int
    truncations: int
    is_stopped: Callable[[], bool]


def clean(log: Log, now_ms: int, is_stopped: Callable[[], bool] = lambda: False) -> int | None:
    """Compact a log, if it is time. One thread at a time; appends and reads go on.

    Args:
        log: whose `config` says that it is compacted.
        now_ms: by the broker's clock.
        is_stopped: asked often; True: leave it.

    Returns:
        In how many milliseconds it may be time, without further appends; 0: at once, for there was
        no room for all keys; None: not.

    Raises:
        CleaningStopped: it was to be left, or the log's end was cut off meanwhile.
        LogError: the files cannot be read or written, or the log is closed.
        KafkaError: they are damaged; nothing has changed.
    """
    config, truncations = log.config, log.truncations

    def is_over() -> bool:
        # What was cut off replaces nothing, and another record may have its offset.
        return is_stopped() or log.truncations != truncations

    limit = min(log.last_stable_offset, log.high_watermark)
    found = find_cleanable(log.segments(), config, log.cleaned_offset, limit, now_ms)
    if not found.is_due:
        return found.again_ms
    try:
        newest = _newest(log, found.segments, found.first_dirty, found.end, is_over)
    except OSError as error:
        raise _not_compacted(log, error) from error
    if newest.latest_offset < found.first_dirty:
        _log.warning(
            "%s-%d is not compacted: one batch has more keys than there is room for",
            log.topic,
            log.partition,
        )
        return None
    end = newest.latest_offset + 1
    producers = log.producers()
    one = _Pass(
        log,
        config,
        newest,
        CleanedTransactions(log.aborted),
        {id: state.batches[-1].last_offset if state.batches else None for id, state in producers},
        {id: state.epoch for id, state in producers},
        log.high_watermark,
        now_ms,
        truncations,
        is_over,
    )
    for group in _groups([each for each in found.segments if each.base_offset < end], config):
        _clean_group(one, group)
    if log.truncations != truncations:
        raise CleaningStopped
    log.note_cleaned(end)
    return found.again_ms if end >= found.end else 0


def _batches(
    segment: Segment, offset: int, is_stopped: Callable[[], bool]
) -> Iterator[RecordBatch]:
    """The batches of a segment from an offset on."""
    while True:
        parts = segment.read(offset, _READ_BYTES, True, _INT64_MAX)
        if not parts:
            return
        for part in parts:
            for batch in read_batches(part, limit_bytes=_LARGEST_BATCH_BYTES):
                if is_stopped():
                    raise CleaningStopped
                yield batch
                offset = batch.next_offset


def _newest(
    log: Log,
    segments: Sequence[Segment],
    first_dirty: int,
    end: int,
    is_stopped: Callable[[], bool],
) -> OffsetMap:
    """The newest offset of each key from `first_dirty` on, as far as there is room."""
    newest = OffsetMap(log.config.cleaner_buffer_bytes)
    # Whose markers lie before that are over: what their producers wrote since then counts.
    aborted = [each for each in log.aborted if each.last_offset >= first_dirty]
    transactions = CleanedTransactions(aborted)
    for segment in segments:
        for batch in _batches(segment, max(segment.base_offset, first_dirty), is_stopped):
            if batch.is_control:
                transactions.is_done_with(batch)
            elif not transactions.is_aborted(batch):
                for each in batch.records():
                    is_new = each.offset >= first_dirty and each.key is not None
                    if is_new and not newest.put(each.key or b"", each.offset):
                        return newest
            newest.latest_offset = batch.next_offset - 1
    newest.latest_offset = end - 1
    return newest


def _groups(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Neighbours whose copies are one segment."""
    groups: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        group = groups[-1] if groups else None
        # The next segment's base bounds the offsets of this one; it is not known of the last.
        if (
            group is not None
            and size_bytes <= config.segment_bytes
            and segment.base_offset - group[0].base_offset < _INT32_MAX // 2
        ):
            group.append(segment)
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups


def _clean_group(one: _Pass, group: Sequence[Segment]) -> None:
    """Copy what stays of some neighbours, and put it in their place."""
    kept_before = len(one.transactions.kept)
    cleaned = one.log.new_cleaned(group[0])
    try:
        for segment in group:
            for batch in _batches(segment, segment.base_offset, one.is_stopped):
                kept = _kept(one, batch)
                if kept is not None:
                    last_offset = batch.next_offset - 1
                    max_timestamp = _max_timestamp(kept)
                    appended = Appended(kept, batch.base_offset, last_offset, max_timestamp)
                    cleaned.append(appended)
        cleaned.finish()
        cleaned.flush(complete=True)
    except BaseException as error:
        cleaned.delete()
        if isinstance(error, OSError):
            raise _not_compacted(one.log, error) from error
        raise
    aborted = one.transactions.kept[kept_before:]
    one.log.replace_segments(group, cleaned, aborted, one.truncations)


def _not_compacted(log: Log, error: OSError) -> LogError:
    text = f"{log.topic}-{log.partition} is not compacted: {error}"
    return LogError(KAFKA_STORAGE_ERROR, text)


def _max_timestamp(batch: bytes) -> int:
    return int.from_bytes(batch[35:43], "big", signed=True)


def _kept(one: _Pass, batch: RecordBatch) -> bytes | None:
    """What stays of a batch; None: nothing."""
    horizon_ms = delete_horizon_ms(batch)
    if batch.is_control:
        is_over = one.transactions.is_done_with(batch)
        discards = is_over and horizon_ms is not None and horizon_ms <= one.now_ms
    else:
        is_over = discards = one.transactions.is_aborted(batch)
    parts = parts_of(batch)
    kept: list[RecordPart] = []
    if not discards:
        kept = parts if batch.is_control else [e for e in parts if _stays(one, e, horizon_ms)]
    if not kept:
        if not _keeps_header(one, batch):
            return None
        return batch.raw() if not parts else rebuilt(batch, [])
    has_tombstone = not batch.is_control and not all(each.has_value for each in kept)
    has_new_horizon = horizon_ms is None and (has_tombstone or (batch.is_control and is_over))
    if len(kept) == len(parts) and not has_new_horizon:
        return batch.raw()
    horizon = one.now_ms + one.config.delete_retention_ms if has_new_horizon else None
    return rebuilt(batch, kept, horizon)


def _stays(one: _Pass, record: RecordPart, horizon_ms: int | None) -> bool:
    if record.offset > one.newest.latest_offset:
        return True
    if record.key is None or record.offset < one.newest.get(record.key):
        return False
    return record.has_value or horizon_ms is None or one.now_ms < horizon_ms


def _keeps_header(one: _Pass, batch: RecordBatch) -> bool:
    """Whether a batch without records tells where a producer, or the log, has got to."""
    if batch.next_offset == one.high_watermark:
        return True
    producer_id = batch.producer_id
    if producer_id < 0 or producer_id not in one.epochs:
        return False
    last_offset = one.last_data[producer_id]
    if last_offset is not None:
        return batch.next_offset - 1 == last_offset
    return batch.is_control and batch.producer_epoch == one.epochs[producer_id]
