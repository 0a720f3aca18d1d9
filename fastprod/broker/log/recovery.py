"""Loads a partition's files, after a clean shutdown or a crash (B-C8, LogLoader)."""

from __future__ import annotations

from typing import NamedTuple

from fastprod.broker.log.leader_epochs import LeaderEpochs
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_directory import CleanEnd
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.log.producer_replay import replay
from fastprod.broker.log.producer_snapshot import SnapshotError, decode_snapshot
from fastprod.broker.log.producer_states import ProducerStates
from fastprod.broker.log.segments.file_segment import FileSegment
from fastprod.broker.log.transaction_index import TransactionIndex


class LoadedLog(NamedTuple):
    """What the files of a partition hold.

    Attributes:
        segments: oldest first.
        start_offset: first offset that can be read.
        end_offset: offset of the next record.
        recovery_point: segments below it are synced, with their indexes.
        producers: as after the last batch.
        transactions: those that were aborted.
        epochs: leader epochs.
        was_clean: it had been closed, and nothing was cut off.
    """

    segments: list[FileSegment]
    start_offset: int
    end_offset: int
    recovery_point: int
    producers: ProducerStates
    transactions: TransactionIndex
    epochs: LeaderEpochs
    was_clean: bool


def load(
    folder: PartitionFolder, config: LogConfig, now_ms: int, clean_end: CleanEnd | None
) -> LoadedLog:
    """Load the log of `folder`; a damaged end is cut off.

    It is taken as it is if it ends where it did when it was closed: `clean_end`.

    Raises:
        OSError: the files cannot be read or written.
    """
    if folder.read_cleaned() is not None:
        # There are gaps.
        config = config.__replace__(compact=True)
        folder.finish_swaps(config)
    folder.remove_leftovers()
    saved_start, recovery_point = folder.read_offsets()
    segments = [
        FileSegment(folder.path, offset, now_ms, config) for offset in folder.offsets_of(".log")
    ]
    start = max(saved_start, segments[0].base_offset if segments else 0)
    end = None
    was_clean = False
    # A segment that begins beyond it was rolled later: the log did not end there.
    if segments and clean_end is not None and segments[-1].base_offset > clean_end.end_offset:
        clean_end = None
    if clean_end is not None:
        end = _load_all(segments, max(start, clean_end.start_offset))
        was_clean = end == clean_end.end_offset
    if clean_end is not None and was_clean:
        start = max(start, clean_end.start_offset)
        recovery_point = segments[-1].base_offset if segments else clean_end.end_offset
    else:
        segments, end = _recover(folder, config, segments, start, recovery_point, now_ms)
    assert end is not None
    segments, start, end = _trim(folder, segments, start, end)
    epochs = _load_epochs(folder, segments, end)
    transactions = TransactionIndex(folder.path)
    producers = _load_producers(folder, config, segments, end, now_ms, transactions)
    point = min(recovery_point, end)
    return LoadedLog(segments, start, end, point, producers, transactions, epochs, was_clean)


def _load_all(segments: list[FileSegment], start: int) -> int | None:
    """End offset of segments that were closed; None: they were not."""
    end: int | None = start
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        end = segment.load(following)
        if end is None or (following is not None and end > following):
            return None
    return end


def _recover(
    folder: PartitionFolder,
    config: LogConfig,
    segments: list[FileSegment],
    start: int,
    recovery_point: int,
    now_ms: int,
) -> tuple[list[FileSegment], int]:
    """Walk the segments; the first bad batch ends the log, and later segments go (B-C8.3)."""
    kept: list[FileSegment] = []
    end = start
    for i, old in enumerate(segments):
        segment = FileSegment(folder.path, old.base_offset, now_ms, config)
        old.close()
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        if kept and segment.base_offset != end and not config.compact:
            break
        known: int | None = None
        if following is not None and following <= recovery_point:
            known = segment.load(following)
            if known is None:
                segment.close()
                segment = FileSegment(folder.path, old.base_offset, now_ms, config)
        is_cut = False
        if known is None:
            known, is_cut = segment.recover()
        end = known
        kept.append(segment)
        if is_cut:
            break
    # From the last to the first: a crash must not leave a gap.
    for gone in reversed(segments[len(kept) :]):
        folder.remove_segment(gone.base_offset)
    for closed in kept[:-1]:
        closed.finish()
    return kept, end


def _trim(
    folder: PartitionFolder, segments: list[FileSegment], start: int, end: int
) -> tuple[list[FileSegment], int, int]:
    """Drop segments below the log's start: a crash interrupted their deletion."""
    while segments:
        following = segments[1].base_offset if len(segments) > 1 else end
        if following > start or (len(segments) == 1 and following == start):
            break
        segments.pop(0).delete()
    return segments, start, max(start, end)


def _load_epochs(folder: PartitionFolder, segments: list[FileSegment], end: int) -> LeaderEpochs:
    """The epochs of the checkpoint; where it is missing or too old, those of the batches."""
    saved = folder.read_epochs()
    epochs = LeaderEpochs(saved or ())
    if saved is None or (segments and segments[-1].last_epoch > epochs.latest):
        for segment in segments:
            for info, _ in segment.batches_from(0):
                epochs.assign(info.partition_leader_epoch, info.base_offset)
    epochs.truncate_to(end)
    return epochs


def _load_producers(
    folder: PartitionFolder,
    config: LogConfig,
    segments: list[FileSegment],
    end: int,
    now_ms: int,
    transactions: TransactionIndex,
) -> ProducerStates:
    """The newest sound snapshot, and the batches after it (B-C6.7).

    Aborted transactions up to that snapshot are read from their index; the others are found again.
    """
    producers = ProducerStates(config.producer_batches, config.producer_id_expiration_ms)
    oldest = segments[0].base_offset if segments else end
    replay_from = oldest
    bases = [segment.base_offset for segment in segments]
    is_index_sound = transactions.load(bases)
    for offset in reversed(folder.offsets_of(".snapshot")):
        if oldest <= offset <= end and is_index_sound:
            try:
                decode_snapshot(folder.read_snapshot(offset), producers, now_ms)
            except SnapshotError:
                folder.remove_snapshot(offset)
                continue
            replay_from = offset
            break
        # A snapshot beyond the end includes batches that were cut off. One before the oldest batch
        # lacks the last batches of a producer, which is worse than not to know the producer.
        folder.remove_snapshot(offset)
    transactions.truncate_to(replay_from, bases)
    replay(segments, replay_from, producers, transactions, now_ms)
    return producers
