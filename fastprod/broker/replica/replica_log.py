"""ReplicaLog: the log of one replica of a partition that has several (UnifiedLog)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from fastprod._core.log.batch_validator import BatchInfo, inspect
from fastprod.broker.log.leader_epochs import LeaderEpochs
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_directory import LogDirectory
from fastprod.broker.log.log_error import LogError
from fastprod.broker.log.segments.segment import Appended
from fastprod.broker.threads.clock import Clock
from fastprod.error_codes import CORRUPT_MESSAGE

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ReplicaLog(Log):
    """A log with a high watermark of its own. Threads and arguments as `Log`.

    Whoever has the partition's lock calls the methods that change it.

    Args:
        moved: called when the high watermark has moved.
    """

    __slots__ = ("_high_watermark", "_moved")

    def __init__(
        self,
        directory: Path | LogDirectory | None,
        topic: str,
        partition: int,
        config: LogConfig,
        clock: Clock,
        topic_id: UUID | None = None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(directory, topic, partition, config, clock, topic_id=topic_id)
        self._moved = moved
        self._high_watermark = self._start_offset

    @property
    def high_watermark(self) -> int:
        """End of what consumers see: below it all replicas in sync have everything."""
        return max(self._high_watermark, self._start_offset)

    @property
    def last_stable_offset(self) -> int:
        """End of what readers with read_committed see."""
        return min(super().last_stable_offset, self.high_watermark)

    def raise_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, or the end; whether it moved. It never falls."""
        offset = min(offset, self._end_offset)
        if offset <= self.high_watermark:
            return False
        self._high_watermark = offset
        self._moved()
        return True

    def begin_epoch(self, epoch: int) -> None:
        """Note that a leader's epoch begins at the end of this log, its own.

        Raises:
            LogError: it cannot be written (56).
        """
        with self._lock:
            self._refuse_if_unusable()
            if epoch > self._epochs.latest:
                self._assign_epoch(epoch, self._end_offset)

    def append_as_follower(self, records: Buffer) -> None:
        """Append batches as the leader has them: numbered and checked.

        Args:
            records: whole batches; they may be kept as they are.

        Raises:
            LogError: they do not continue this log (2), or cannot be written (56).
        """
        now_ms = self._clock.time_ms()
        view = memoryview(records)
        at = 0
        with self._lock:
            self._refuse_if_unusable()
            self._rewind_if_empty(inspect(records, at, False))
            while at < view.nbytes:
                info = inspect(records, at, False)
                if info is None or info.base_offset < self._end_offset:
                    raise LogError(
                        CORRUPT_MESSAGE,
                        f"{self.topic}-{self.partition}: what the leader sent does not continue "
                        f"the log, which ends at {self._end_offset}",
                    )
                is_whole = at == 0 and info.size_bytes == view.nbytes
                batch = records if is_whole else view[at : at + info.size_bytes]
                self._roll_if_due(info, now_ms)
                if info.base_offset > self._end_offset:
                    self._note_gaps()
                appended = Appended(batch, info.base_offset, info.last_offset, info.max_timestamp)
                self._take(appended, info, info.partition_leader_epoch, now_ms)
                at += info.size_bytes

    def _rewind_if_empty(self, first: BatchInfo | None) -> None:
        """Let an empty log end where a batch begins that holds its end.

        It starts where the leader's does, and DeleteRecords may have put that inside a batch.
        """
        end_offset = self._end_offset
        if (
            self._segments
            or first is None
            or not (first.base_offset < end_offset <= first.last_offset)
        ):
            return
        self._end_offset = first.base_offset
        if self._files is not None:
            try:
                self._files.truncate(
                    self._start_offset, self._end_offset, self._epochs, self.config
                )
                self._files.save_producers(self._end_offset, self._states(), self.config)
            except OSError as error:
                self._fail("begin", error, is_half_done=True)

    def _note_gaps(self) -> None:
        """The leader's log was compacted, this one perhaps never: a start must know the gaps."""
        self._segments[-1].allow_gaps()
        if self._files is not None:
            try:
                self._files.note_gaps(self.config)
            except OSError as error:
                self._fail("note the gaps of", error)

    def truncate_to(self, offset: int) -> int:
        end_offset = super().truncate_to(offset)
        with self._lock:
            self._high_watermark = min(self.high_watermark, end_offset)
            entries = self._epochs.entries
            if entries and entries[-1].start_offset >= end_offset:
                # They wrote nothing here; the leader may not know them.
                self._keep_epochs_below(end_offset)
        self._moved()
        return end_offset

    def _keep_epochs_below(self, offset: int) -> None:
        kept = LeaderEpochs(self._epochs.entries)
        kept.truncate_to(offset)
        if self._files is not None:
            try:
                self._files.save_epochs(kept, self.config)
            except OSError as error:
                self._fail("write the leader epochs of", error)
        self._epochs = kept

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, and let the log begin at `offset`: the leader has nothing older.

        Raises:
            LogError: the files cannot be changed (56).
        """
        with self._lock:
            self._refuse_if_unusable()
            self._check_descriptors("truncate")
            self._cuts += 1
            self._truncations += 1
            gone, self._segments = self._segments, []
            self._start_offset = self._end_offset = self._high_watermark = offset
            self._epochs, self._producers = LeaderEpochs(), None
            try:
                self._transactions.truncate_to(0, [each.base_offset for each in gone])
                # From the last to the first: a crash must not leave a gap.
                for segment in reversed(gone):
                    segment.delete()
                if self._files is not None:
                    self._files.mark_dirty()
                    self._files.truncate(offset, offset, self._epochs, self.config)
                    self._files.save_producers(offset, self._states(), self.config)
            except OSError as error:
                self._fail("truncate", error, is_half_done=True)
            self._cuts += 1
        self._moved()
