"""One partition's log: validates, numbers and keeps batches, gives them back (B-C, UnifiedLog)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from fastprod._core.log.batch_validator import BatchInfo, InvalidBatch, inspect, stamp
from fastprod.broker.log.cleaning.swapping_log import SwappingLog
from fastprod.broker.log.end_transaction_marker import (
    EndTransactionMarker,
    encode_marker,
    marker_of,
)
from fastprod.broker.log.leader_epochs import LeaderEpochs
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_directory import LogDirectory
from fastprod.broker.log.log_error import LogError, OffsetOutOfRange
from fastprod.broker.log.log_files import LogFiles
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.log.producer_replay import end_transaction, replay
from fastprod.broker.log.producer_states import ProducerStates
from fastprod.broker.log.retention import count_below, count_due, wait_ms
from fastprod.broker.log.rolling import is_due
from fastprod.broker.log.segments.file_handle import check_descriptors
from fastprod.broker.log.segments.memory_segment import MemorySegment
from fastprod.broker.log.segments.segment import Appended, AppendInfo, Segment
from fastprod.broker.log.validation import validate_produced
from fastprod.broker.threads.clock import Clock

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["AppendInfo", "InvalidBatch", "Log", "LogError", "OffsetOutOfRange"]


class Log(SwappingLog):
    """The log of one partition.

    One thread at a time calls `append`; any thread may call everything else meanwhile.

    Args:
        directory: folder of logs; the partition's own `<topic>-<partition>` is made in it or
            loaded from it. Whoever made a `LogDirectory` saves it, after its logs are closed.
            None: in memory.
        topic: name.
        partition: index.
        config: settings; `reconfigure` replaces them.
        clock: the broker's.
        discard: validate, number and remember producers, but keep no record.
        topic_id: goes into partition.metadata of files.

    Raises:
        OSError: the files cannot be read or written.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_on_append",
        "_on_reconfigure",
        "_on_roll",
        "discard",
    )

    def __init__(
        self,
        directory: Path | LogDirectory | None,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        discard: bool = False,
        topic_id: UUID | None = None,
    ) -> None:
        super().__init__(topic, partition, config)
        self.discard = discard
        self._clock = clock
        self._on_append: Callable[[Log], None] | None = None
        self._on_reconfigure: Callable[[Log], None] | None = None
        self._on_roll: Callable[[Log], None] | None = None
        if directory is not None and not discard:
            shared = directory if isinstance(directory, LogDirectory) else None
            path = directory.path if isinstance(directory, LogDirectory) else directory
            folder = PartitionFolder(path, topic, partition, topic_id)
            self._load(LogFiles(folder, clock, shared))

    def _load(self, files: LogFiles) -> None:
        loaded = files.load(self.config)
        self._files = files
        self._segments = list(loaded.segments)
        self._start_offset = loaded.start_offset
        self._end_offset = loaded.end_offset
        self._producers = loaded.producers
        self._transactions = loaded.transactions
        self._epochs = loaded.epochs
        self.cleaned_offset = min(files.folder.read_cleaned() or 0, self._end_offset)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed or deleted."""
        return self._closed

    @property
    def has_failed(self) -> bool:
        """Whether it refuses appends because its files could not be written."""
        return bool(self._failure)

    def validate(self, batch: Buffer, most_bytes: int | None = None) -> BatchInfo:
        """Check a produced batch as `append` does: see `validate_produced`.

        Any thread; the caller holds no lock, because it may take long.
        """
        return validate_produced(batch, self.config, self._clock.time_ms(), most_bytes)

    def append(
        self,
        batch: Buffer,
        leader_epoch: int,
        info: BatchInfo | None = None,
        is_verified: bool = False,
    ) -> AppendInfo:
        """Append one produced batch, or one of a coordinator (B-C4.1).

        Args:
            batch: writable; offsets, epoch and, if so configured, the append time are written
                into it. Borrowed: copied or written when this returns.
            leader_epoch: goes into the batch.
            info: the result of `validate`; None: it is validated now.
            is_verified: the coordinator knows the partition to be in the producer's transaction.

        Raises:
            InvalidBatch: it is not acceptable (B-D1).
            LogError: it does not fit in a segment (18), has a wrong sequence (45) or epoch (47), is
                in no transaction or not in the one that is open (48), or cannot be written (56).
        """
        now_ms = self._clock.time_ms()
        if info is None:
            info = validate_produced(batch, self.config, now_ms)
        with self._lock:
            if self._failure or self._closed:
                self._refuse_if_unusable()
            self._roll_if_due(info, now_ms)
            if info.producer_id >= 0:
                repeated = self._states().check(info, now_ms, is_verified)
                if repeated is not None:
                    return AppendInfo(
                        repeated.base_offset,
                        repeated.last_offset,
                        repeated.timestamp if self.config.log_append_time else -1,
                        self._start_offset,
                        True,
                    )
            return self._append(batch, info, leader_epoch, now_ms, None)

    def append_marker(self, marker: EndTransactionMarker, leader_epoch: int) -> AppendInfo:
        """End a transaction here (B-C7.2); one that has no records here gets its marker, too.

        Raises:
            LogError: a newer producer (47) or coordinator (52) has been here, or it cannot be
                written (56).
        """
        now_ms = self._clock.time_ms()
        batch = encode_marker(marker, now_ms)
        info = inspect(batch, 0)
        assert info is not None
        with self._lock:
            self._refuse_if_unusable()
            self._states().check_marker(marker)
            self._roll_if_due(info, now_ms)
            return self._append(batch, info, leader_epoch, now_ms, marker)

    def _roll_if_due(self, info: BatchInfo, now_ms: int) -> None:
        config = self.config
        max_timestamp = now_ms if config.log_append_time else info.max_timestamp
        # Kafka rolls before it looks for duplicates, too (B-C6.4).
        if not self.discard and (
            not self._segments
            or is_due(self._segments[-1], self._end_offset, info, max_timestamp, config, now_ms)
        ):
            self._roll(now_ms)

    def _append(
        self,
        batch: Buffer,
        info: BatchInfo,
        leader_epoch: int,
        now_ms: int,
        marker: EndTransactionMarker | None,
    ) -> AppendInfo:
        config = self.config
        max_timestamp = now_ms if config.log_append_time else info.max_timestamp
        base_offset = self._end_offset
        last_offset = base_offset + info.last_offset_delta
        stamp(batch, base_offset, leader_epoch, max_timestamp, config.log_append_time)
        self._take(
            Appended(batch, base_offset, last_offset, max_timestamp),
            info,
            leader_epoch,
            now_ms,
            marker,
        )
        return AppendInfo(
            base_offset,
            last_offset,
            now_ms if config.log_append_time else -1,
            self._start_offset,
            False,
        )

    def _take(
        self,
        appended: Appended,
        info: BatchInfo,
        leader_epoch: int,
        now_ms: int,
        marker: EndTransactionMarker | None = None,
    ) -> None:
        """Keep a batch that has its offsets; the lock is held.

        A follower's marker is read from the batch.
        """
        base_offset, max_timestamp = appended.base_offset, appended.max_timestamp
        if marker is None and info.is_control:
            marker = marker_of(appended.batch)
        if marker is not None:
            self._make_ready_for(marker)
        if leader_epoch > self._epochs.latest:
            self._assign_epoch(leader_epoch, base_offset)
        if not self.discard:
            self._write(appended)
        # Before the end moves: what is undecided must not be seen as stable.
        if marker is not None:
            self._end_transaction(marker, base_offset, max_timestamp, now_ms)
        elif info.producer_id >= 0 and not info.is_control:
            self._states().add(info, base_offset, max_timestamp, now_ms, self.appended_bytes)
        self._end_offset = appended.last_offset + 1
        self.appended_bytes += info.size_bytes
        if self.discard:
            self._start_offset = self._end_offset
        on_append = self._on_append
        if on_append is not None:
            self._on_append = None
            on_append(self)

    def _make_ready_for(self, marker: EndTransactionMarker) -> None:
        """Before a marker is written: if there is no descriptor to note an abort by, nothing is
        done, and the coordinator tries again.
        """
        is_open = self._states().first_offset_of(marker.producer.id) >= 0
        if is_open and not marker.is_commit and self._segments:
            try:
                self._transactions.make_ready(self._segments[-1].base_offset)
            except OSError as error:
                self._fail("note an aborted transaction in", error)

    def _end_transaction(
        self, marker: EndTransactionMarker, offset: int, timestamp: int, now_ms: int
    ) -> None:
        base = self._segments[-1].base_offset if self._segments else 0
        try:
            end_transaction(
                self._states(), self._transactions, marker, offset, timestamp, now_ms, base
            )
        except OSError as error:
            self._fail("note an aborted transaction in", error, is_half_done=True)

    def _states(self) -> ProducerStates:
        if self._producers is None:
            self._producers = ProducerStates(
                self.config.producer_batches, self.config.producer_id_expiration_ms
            )
        return self._producers

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        epochs = LeaderEpochs(self._epochs.entries)
        epochs.assign(epoch, start_offset)
        if self._files is not None:
            try:
                self._files.save_epochs(epochs, self.config)
            except OSError as error:
                self._fail("write the leader epochs of", error)
        self._epochs = epochs

    def _write(self, appended: Appended) -> None:
        try:
            sync = self._files is not None and self.config.sync == "batch"
            if self._files is not None:
                self._files.mark_dirty()
                if sync:
                    self._files.sync_names()
            self._segments[-1].append(appended, sync)
        except OSError as error:
            self._fail("append to", error)

    def _roll(self, now_ms: int) -> None:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if jitter_ms:
            # Here: few logs have any, and a broker is to take little memory.
            import random  # noqa: PLC0415

            jitter_ms = random.randrange(jitter_ms)
        segment: Segment
        if self._files is None:
            limit_bytes = self.config.codec_limit_bytes
            segment = MemorySegment(self._end_offset, now_ms, limit_bytes, jitter_ms)
        else:
            try:
                segment = self._files.roll(
                    self._segments, self._end_offset, self._states(), self.config, jitter_ms
                )
            except OSError as error:
                self._fail("roll", error)
        # Replaced, not changed: readers go through the list that they found.
        self._segments = [*self._segments, segment]
        if self._on_roll is not None and len(self._segments) > 1:
            self._on_roll(self)

    def delete_records(self, before: int) -> int:
        """Let the log start at `before`; the new start. For DeleteRecords, not listed yet (B-C4.5).

        Raises:
            OffsetOutOfRange: `before` is negative, or above the high watermark.
        """
        with self._lock:
            self._refuse_if_unusable()
            if before > self.high_watermark or before < 0:
                raise OffsetOutOfRange(before, self._start_offset, self.high_watermark)
            if before > self._start_offset:
                self._advance_start(before)
            return self._start_offset

    def _advance_start(self, start_offset: int) -> None:
        """Let the log start there, and drop the segments that lie below as a whole."""
        count = count_below(self._segments, start_offset, self._end_offset)
        try:
            if self._files is not None:
                self._files.mark_dirty()
                if count == len(self._segments):
                    # No batch will be left from which the producers could be rebuilt.
                    self._files.save_producers(self._end_offset, self._states(), self.config)
                # First: after a crash the segments may still be there, and must count as deleted.
                self._files.save_offsets(start_offset, self.config)
            self._start_offset = start_offset
            self._cuts += 1
            self._drop(count)
        except OSError as error:
            self._fail("delete records of", error)

    def run_retention_now(self) -> int:
        """Drop old or excess segments, and producers long silent (B-C4.5, B-C6.6).

        The active segment is dropped like the others; an empty one follows with the next append.

        Returns:
            How many segments went.
        """
        with self._lock:
            self._refuse_if_unusable()
            now_ms = self._clock.time_ms()
            if self._producers is not None:
                self._producers.expire(now_ms)
            before = len(self._segments)
            count = count_due(self._segments, self.config, now_ms)
            if count:
                ends = [segment.base_offset for segment in self._segments[1:]]
                ends.append(self._end_offset)
                # What followers have not yet stays.
                while count and ends[count - 1] > self.high_watermark:
                    count -= 1
                self._advance_start(max(ends[count - 1] if count else 0, self._start_offset))
            return before - len(self._segments)

    def retention_wait_ms(self) -> int | None:
        """Milliseconds until the first segment is too old; None: never, without further appends."""
        with self._lock:
            return wait_ms(self._segments, self.config, self._clock.time_ms())

    def call_after_append(self, listener: Callable[[Log], None]) -> None:
        """Have `listener` called by the next append, once, with the log's lock held."""
        self._on_append = listener

    def call_after_reconfigure(self, listener: Callable[[Log], None]) -> None:
        """Have `listener` called when it gets other settings and is not empty, its lock held."""
        self._on_reconfigure = listener

    def reconfigure(self, config: LogConfig) -> None:
        """Have other settings hold from now on; whoever looks after the log is told."""
        with self._lock:
            if config is self.config:
                return
            self.config = config
            if self._on_reconfigure is not None and self._segments:
                self._on_reconfigure(self)

    def call_after_roll(self, listener: Callable[[Log], None]) -> None:
        """Have `listener` called whenever a segment is complete, with the log's lock held.

        It is called now if complete segments are not synced yet.
        """
        if self._files is not None:
            self._on_roll = listener
            if not all(segment.is_synced for segment in self._segments[:-1]):
                listener(self)

    def truncate_to(self, offset: int) -> int:
        """Remove the batches that reach `offset` or beyond, as an unclean leader change does.

        Returns:
            The new end offset: where the batch that held `offset` began.

        Raises:
            LogError: the files cannot be changed (56).
        """
        with self._lock:
            self._refuse_if_unusable()
            if offset < self._end_offset and self._segments:
                self._check_descriptors("truncate")
                # Who reads waits; who has begun to read begins anew.
                self._is_swapping = True
                self._cuts += 1
                self._truncations += 1
                try:
                    self._truncate(offset)
                except OSError as error:
                    self._fail("truncate", error, is_half_done=True)
                finally:
                    self._is_swapping = False
            return self._end_offset

    def _check_descriptors(self, what: str) -> None:
        """Before what must not stop half-way: without descriptors nothing is done."""
        if self._files is not None:
            try:
                check_descriptors(self._files.folder.path)
            except OSError as error:
                self._fail(what, error)

    def _truncate(self, offset: int) -> None:
        if self._files is not None:
            self._files.mark_dirty()
        kept = [segment for segment in self._segments if segment.base_offset < offset]
        gone = self._segments[len(kept) :]
        first_offset = self._segments[0].base_offset
        self._end_offset = max(offset, first_offset)
        self._segments = kept
        # From the last to the first: a crash must not leave a gap.
        for segment in reversed(gone):
            segment.delete()
        self._end_offset = kept[-1].truncate_to(offset) if kept else first_offset
        self.cleaned_offset = min(self.cleaned_offset, self._end_offset)
        self._start_offset = min(self._start_offset, self._end_offset)
        self._epochs.truncate_to(self._end_offset)
        self._producers = None
        self._transactions.truncate_to(0, [each.base_offset for each in (*kept, *gone)])
        replay(kept, first_offset, self._states(), self._transactions, self._clock.time_ms())
        if self._files is not None:
            self._files.truncate(self._start_offset, self._end_offset, self._epochs, self.config)

    def _drop(self, count: int) -> None:
        """Forget the first `count` segments."""
        gone = self._segments[:count]
        self._segments = self._segments[count:]
        for segment in gone:
            segment.delete()
        first_offset = self._segments[0].base_offset if self._segments else self._end_offset
        self._transactions.drop_segments([each.base_offset for each in gone], first_offset)

    def flush(self, closed_only: bool = False) -> None:
        """Sync everything appended so far: it survives a power cut. Blocks for the disk.

        Appends go on meanwhile.

        Args:
            closed_only: sync only complete segments; recovery then need not walk them.

        Raises:
            LogError: syncing failed (56).
        """
        if self._files is None or self._closed:
            return
        try:
            self._refuse_if_unusable()
            # First: the recovery point moves past them.
            self._transactions.flush()
            self._files.flush(lambda: self._segments, self.config, closed_only)
        except OSError as error:
            with self._lock:
                self._fail("flush", error)

    def close(self) -> None:
        """Flush, note the clean end (B-C8.2), and close the files. May be repeated.

        Raises:
            LogError: the files cannot be written (56); the next start recovers the log.
        """
        with self._lock:
            was_closed, self._closed = self._closed, True
            try:
                if self._files is not None and not was_closed and not self._failure:
                    self._transactions.flush()
                    self._files.close(self._segments, self._end_offset, self._states(), self.config)
            except OSError as error:
                self._fail("close", error)
            finally:
                for segment in self._segments:
                    segment.close()

    def delete(self, removes_files: bool = True) -> None:
        """Drop all records; files are removed, or left to the next start. May be repeated.

        Raises:
            LogError: the files cannot be removed (56).
        """
        with self._lock:
            self._closed = True
            segments, self._segments = self._segments, []
            # Before a file is removed: a new topic's file may soon have its name.
            self._cuts += 1
            for segment in segments:
                segment.close()
            try:
                if self._files is not None:
                    self._files.delete(removes_files)
            except OSError as error:
                self._fail("delete", error)
