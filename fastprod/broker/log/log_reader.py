"""LogReader: what can be read of a partition's log, by any thread (B-C5, B-C7, UnifiedLog)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from fastprod._core.records.record_reader import RecordBatch, read_batches
from fastprod.broker.log.leader_epochs import LeaderEpochs
from fastprod.broker.log.log_error import LogError, OffsetOutOfRange
from fastprod.broker.log.producer_states import ProducerState, ProducerStates
from fastprod.broker.log.segments.segment import Segment, find_timestamp, read_segments
from fastprod.broker.log.transaction_index import AbortedTxn, TransactionIndex
from fastprod.error_codes import KAFKA_STORAGE_ERROR

if TYPE_CHECKING:
    from typing_extensions import Buffer

_READ_BYTES = 1024 * 1024
# Of a batch: base offset, length, offset of the last record.
_HEAD = Struct(">qi11xi")
_LENGTH_END = 12


class LogReader:
    """The reading half of `Log`, which appends. It takes no lock where it does not say so.

    Args:
        topic: name.
        partition: index.

    Attributes:
        appended_bytes: since it was opened; it never falls.
    """

    __slots__ = (
        "_cuts",
        "_end_offset",
        "_epochs",
        "_is_swapping",
        "_lock",
        "_producers",
        "_segments",
        "_start_offset",
        "_transactions",
        "appended_bytes",
        "partition",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._producers: ProducerStates | None = None
        self._transactions = TransactionIndex()
        self._epochs = LeaderEpochs()
        self._start_offset = 0
        self._end_offset = 0
        # How often records were removed: a read during which it grows is done again.
        self._cuts = 0
        # Files are being replaced, or the end is cut off: for so long the segments are not what
        # their files hold, or it is not known which transactions are open or aborted.
        self._is_swapping = False
        self.appended_bytes = 0

    @property
    def log_start_offset(self) -> int:
        """First offset that can be read."""
        return self._start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self._end_offset

    @property
    def high_watermark(self) -> int:
        """End of what readers see: of everything, with one replica."""
        return self._end_offset

    @property
    def last_stable_offset(self) -> int:
        """End of what readers with read_committed see (B-C7.3)."""
        # In this order: what begins meanwhile begins at this end or later.
        end_offset = self._end_offset
        producers = self._producers
        undecided = None if producers is None else producers.undecided
        if undecided is None:
            return end_offset
        return min(max(undecided.first_offset, self._start_offset), end_offset)

    @property
    def stable_bytes(self) -> int:
        """How much of `appended_bytes` lies below the last stable offset."""
        appended_bytes = self.appended_bytes
        producers = self._producers
        undecided = None if producers is None else producers.undecided
        return appended_bytes if undecided is None else undecided.bytes_before

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTxn]:
        """What a reader of these offsets has to skip (B-C7.5)."""
        return self._transactions.collect(offset, end_offset)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer of that epoch has a transaction open here."""
        producers = self._producers
        return producers is not None and producers.is_in_transaction(producer_id, epoch)

    def knows_producer(self, producer_id: int) -> bool:
        """Whether anything is known of a producer."""
        producers = self._producers
        return producers is not None and producers.get(producer_id) is not None

    def producers(self) -> list[tuple[int, ProducerState]]:
        """Producers by id, as they are now."""
        with self._lock:
            return [] if self._producers is None else self._producers.items()

    @property
    def size_bytes(self) -> int:
        """Size of all batches that are kept."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def latest_epoch(self) -> int:
        """Newest leader epoch that wrote here; -1: none."""
        return self._epochs.latest

    def end_offset_for_epoch(self, epoch: int, current_epoch: int = -1) -> tuple[int, int]:
        """Largest epoch here that is not above `epoch`, and the offset after it.

        (-1, -1): not known (OffsetForLeaderEpoch). `current_epoch`: as `LeaderEpochs` has it.
        """
        # In this order: an epoch that begins meanwhile begins at this end or later.
        end_offset = self._end_offset
        return self._epochs.end_offset_for(epoch, end_offset, current_epoch)

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, up_to: int | None = None
    ) -> list[Buffer]:
        """Read whole batches, the first of which holds `offset` (B-C5).

        Args:
            offset: from `log_start_offset` to `log_end_offset`.
            max_bytes: of all; the first batch may be larger with `at_least_one`.
            up_to: read only below this offset; None: `high_watermark`.

        Returns:
            Slices of the log, or a copy of its files; [] at the end.

        Raises:
            OffsetOutOfRange: there is no such offset.
            LogError: the files cannot be read (56).
        """
        while True:
            cuts = self._cuts
            if self._is_swapping:
                self._await_swap()
                continue
            end_offset = self._end_offset
            if not self._start_offset <= offset <= end_offset:
                raise OffsetOutOfRange(offset, self._start_offset, end_offset)
            limit = end_offset if up_to is None else min(up_to, end_offset)
            if offset >= limit:
                return []
            try:
                found = read_segments(self._segments, offset, max_bytes, at_least_one, limit)
            except OSError as error:
                if cuts == self._cuts:
                    raise self._unreadable(error) from error
                continue
            if cuts == self._cuts:
                return found

    def _await_swap(self) -> None:
        """Wait for some milliseconds, until files have taken the place of others, or the end is
        cut off.
        """
        with self._lock:
            pass

    def read_committed(
        self, offset: int, max_bytes: int, at_least_one: bool
    ) -> tuple[list[Buffer], list[AbortedTxn], int]:
        """Read below the last stable offset; what has to be skipped, and that offset, come along.

        Args, raises: as `read`. All three are of one moment: a segment that goes meanwhile takes
        what is known of its aborted transactions with it.
        """
        while True:
            cuts = self._cuts
            if self._is_swapping:
                self._await_swap()
                continue
            stable_offset = self.last_stable_offset
            found = self.read(offset, max_bytes, at_least_one, stable_offset)
            aborted = self.aborted_transactions(offset, stable_offset) if found else []
            if aborted:
                end_offset = _end_of(found)
                aborted = [each for each in aborted if each.first_offset < end_offset]
            if cuts == self._cuts:
                return found, aborted, stable_offset

    def _unreadable(self, error: OSError) -> LogError:
        what = f"the log of {self.topic}-{self.partition} cannot be read"
        return LogError(KAFKA_STORAGE_ERROR, f"{what}: {error}")

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """First record that is not older than `timestamp`: (offset, timestamp), or None (B-D3).

        Raises:
            LogError: the files cannot be read (56).
        """
        while True:
            cuts = self._cuts
            if self._is_swapping:
                self._await_swap()
                continue
            end_offset = self._end_offset
            try:
                found = find_timestamp(self._segments, timestamp, self._start_offset)
            except OSError as error:
                if cuts == self._cuts:
                    raise self._unreadable(error) from error
                continue
            if cuts == self._cuts:
                return found if found is not None and found[0] < end_offset else None

    def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """First record with the largest timestamp: (offset, timestamp), or None (B-D3, -3).

        Raises:
            LogError: the files cannot be read (56).
        """
        best: tuple[int, int] | None = None
        # Locked: an append in progress has changed the largest timestamp already.
        with self._lock:
            try:
                for segment in self._segments:
                    if best is not None and segment.max_timestamp <= best[1]:
                        continue
                    found = segment.find_largest_timestamp(self._start_offset)
                    if found is not None and (best is None or found[1] > best[1]):
                        best = found
            except OSError as error:
                raise self._unreadable(error) from error
        return best

    def batches(self) -> Iterator[RecordBatch]:
        """Every batch that is kept, oldest first; verified, for tests; LogError as of `read`."""
        end_offset = self._end_offset
        offset = 0
        while (offset := max(offset, self._start_offset)) < end_offset:
            parts: list[Buffer] = []
            # Records may be removed meanwhile.
            with contextlib.suppress(OffsetOutOfRange):
                parts = self.read(offset, _READ_BYTES, True, end_offset)
            if not parts and offset >= self._start_offset:
                return
            for part in parts:
                for batch in read_batches(part, limit_bytes=2**31 - 1, verify=True):
                    yield batch
                    offset = batch.next_offset


def _end_of(records: Sequence[Buffer]) -> int:
    """The offset after the last batch."""
    last = memoryview(records[-1])
    at = end_offset = 0
    while at + _HEAD.size <= last.nbytes:
        base_offset, size, last_delta = _HEAD.unpack_from(last, at)
        end_offset = base_offset + last_delta + 1
        at += _LENGTH_END + size
    return end_offset
