"""What a partition took: appended batches, their offsets, and the producers it remembers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from support.oracle.record_batch import Headers
from support.peer.received_batch import ReceivedBatch

Idempotence = Literal["kafka", "strict", "off"]
Fate = Literal["plain", "open", "committed", "aborted"]

OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
REMEMBERED_BATCHES: Final = 5


class LoggedRecord(NamedTuple):
    """One record of a log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class AppendResult(NamedTuple):
    """`base_offset` is -1 after an error."""

    error_code: int
    base_offset: int
    is_duplicate: bool = False


class _Remembered(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass
class _Producer:
    epoch: int
    batches: deque[_Remembered] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))


@dataclass
class _Appended:
    base_offset: int
    batch: ReceivedBatch
    log_append_time_ms: int
    fate: Fate


class PartitionLog:
    """OWNER: a partition of `ClusterState`. THREADS: under the cluster's lock."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.start_offset = 0
        self._appended: list[_Appended] = []
        self._producers: dict[int, _Producer] = {}

    def append(
        self, batch: ReceivedBatch, idempotence: Idempotence, log_append_time_ms: int = -1
    ) -> AppendResult:
        """Append a sound batch as a broker would, sequences checked (contract P-F.5.3)."""
        header = batch.header
        if header.producer_id >= 0 and idempotence != "off":
            refusal = self._check_sequence(batch, idempotence)
            if refusal is not None:
                return refusal
        base_offset = self.next_offset
        fate: Fate = "open" if header.is_transactional else "plain"
        self._appended.append(_Appended(base_offset, batch, log_append_time_ms, fate))
        self.next_offset += header.record_count
        if header.producer_id >= 0:
            producer = self._producers.get(header.producer_id)
            if producer is None or producer.epoch != header.producer_epoch:
                producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
            producer.batches.append(
                _Remembered(header.base_sequence, header.last_sequence, base_offset)
            )
        return AppendResult(0, base_offset)

    def _check_sequence(
        self, batch: ReceivedBatch, idempotence: Idempotence
    ) -> AppendResult | None:
        """What to answer instead of appending; None: append."""
        header = batch.header
        producer = self._producers.get(header.producer_id)
        if producer is None:
            # A broker takes any first sequence, so that one that lost its state stops nobody.
            is_first = header.base_sequence == 0
            return None if is_first or idempotence == "kafka" else _refused()
        if header.producer_epoch < producer.epoch:
            return AppendResult(INVALID_PRODUCER_EPOCH, -1)
        if header.producer_epoch > producer.epoch:
            return None if header.base_sequence == 0 else _refused()
        for each in producer.batches:
            if (each.first_sequence, each.last_sequence) == (
                header.base_sequence,
                header.last_sequence,
            ):
                return AppendResult(0, each.base_offset, is_duplicate=True)
        expected = (producer.batches[-1].last_sequence + 1) % 2**31
        return None if header.base_sequence == expected else _refused()

    def forget_producers(self) -> None:
        """Lose all sequences, as a broker does when a producer's records have aged out."""
        self._producers.clear()

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for each in self._appended:
            if each.fate == "open" and each.batch.header.producer_id == producer_id:
                each.fate = "committed" if committed else "aborted"

    @property
    def record_count(self) -> int:
        return sum(each.batch.header.record_count for each in self._appended)

    def records(self, committed: bool = False) -> list[LoggedRecord]:
        """All records by offset; `committed` leaves out open and aborted transactions."""
        return [
            LoggedRecord(
                each.base_offset + index,
                record.timestamp if each.log_append_time_ms < 0 else each.log_append_time_ms,
                record.key,
                record.value,
                record.headers,
            )
            for each in self._appended
            if not committed or each.fate in ("plain", "committed")
            for index, record in enumerate(each.batch.records)
        ]


def _refused() -> AppendResult:
    return AppendResult(OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
