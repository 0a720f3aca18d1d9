"""What a partition knows of its producers and transactions (B-C6, B-C7, ProducerStateManager)."""

from __future__ import annotations

from typing import Final, NamedTuple

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log_error import LogError
from fastprod.error_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_COORDINATOR_FENCED,
)

_SEQUENCE_MAX: Final = 2**31 - 1
_TRANSACTIONAL: Final = 0x10


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer, to recognize a duplicate by.

    Attributes:
        first_sequence: of its first record.
        last_sequence: of its last record.
        base_offset: offset of its first record.
        last_offset: of its last record.
        timestamp: its maximum, milliseconds since the epoch.
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """One producer id in one partition (ProducerStateEntry).

    Attributes:
        epoch: the newest seen.
        batches: the last ones of that epoch, oldest first.
        seen_ms: the broker's clock at the last batch.
        timestamp: of the last batch or marker, milliseconds since 1970; -1: none.
        coordinator_epoch: of the last marker; -1: none.
        first_offset: where its open transaction begins here; -1: none is open.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_offset", "seen_ms", "timestamp")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.seen_ms = seen_ms
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.first_offset = -1

    @property
    def last_sequence(self) -> int:
        """Last sequence of the last batch; -1: none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


class Undecided(NamedTuple):
    """The oldest transaction that is open.

    Attributes:
        first_offset: of its first record.
        bytes_before: how much had been appended to the log before it, since that was opened.
    """

    first_offset: int
    bytes_before: int


def next_sequence(sequence: int) -> int:
    """The sequence that comes next: after 2**31 - 1 comes 0."""
    return 0 if sequence == _SEQUENCE_MAX else sequence + 1


class ProducerStates:
    """Producers by id. The caller has a lock.

    Args:
        window: batches remembered for each producer.
        expiration_ms: silence after which one is forgotten.

    Attributes:
        undecided: the oldest open transaction; None: all are decided. May be read without the lock.
    """

    def __init__(self, window: int, expiration_ms: int) -> None:
        self.window = window
        self.expiration_ms = expiration_ms
        self.undecided: Undecided | None = None
        self._states: dict[int, ProducerState] = {}
        # Of producers with an open transaction; in the order of their first offsets.
        self._open: dict[int, Undecided] = {}

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer."""
        return self._states.get(producer_id)

    def items(self) -> list[tuple[int, ProducerState]]:
        """Every producer by id."""
        return sorted(self._states.items())

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        return state.first_offset < 0 and now_ms - state.seen_ms >= self.expiration_ms

    def check(
        self, info: BatchInfo, now_ms: int, is_verified: bool = False
    ) -> ProducedBatch | None:
        """Decide about a batch with a producer id (table B-C6.2).

        Args:
            info: its header; without a sequence it is a coordinator's.
            now_ms: by the broker's clock.
            is_verified: the coordinator knows the partition to be in the producer's transaction.

        Returns:
            None: append it; else the earlier batch that it repeats.

        Raises:
            LogError: wrong epoch or sequence, or not what its transaction allows.
        """
        state = self._states.get(info.producer_id)
        if state is not None and self._is_expired(state, now_ms):
            state = None
        epoch, first = info.producer_epoch, info.base_sequence
        is_transactional = info.attributes & _TRANSACTIONAL
        if state is None:
            if is_transactional and not is_verified:
                raise _not_in_transaction(info)
            return None
        if epoch == state.epoch and first >= 0:
            for batch in state.batches:
                if batch[:2] == (first, info.last_sequence):
                    return batch
        is_open = state.first_offset >= 0
        if is_transactional and not is_verified and not (is_open and epoch == state.epoch):
            raise _not_in_transaction(info)
        self._check_epoch(state, info.producer_id, epoch)
        if first >= 0:
            self._check_sequence(state, info)
        if is_open and not is_transactional:
            raise LogError(
                INVALID_TXN_STATE,
                f"producer {info.producer_id} has a transaction open here; this batch is not in it",
            )
        return None

    def _check_epoch(self, state: ProducerState, producer_id: int, epoch: int) -> None:
        if epoch < state.epoch:
            raise LogError(
                INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} comes with epoch {epoch}, the partition has seen "
                f"epoch {state.epoch}: another producer has taken its place",
            )

    def _check_sequence(self, state: ProducerState, info: BatchInfo) -> None:
        first = info.base_sequence
        if info.producer_epoch > state.epoch:
            if first != 0:
                raise self._out_of_order(info, f"a new epoch after {state.epoch} begins with 0")
        elif first != next_sequence(state.last_sequence):
            raise self._out_of_order(
                info, f"expected {next_sequence(state.last_sequence)} after the last batch"
            )

    def _out_of_order(self, info: BatchInfo, expected: str) -> LogError:
        return LogError(
            OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {info.producer_id}, epoch {info.producer_epoch}, comes with sequences "
            f"{info.base_sequence} to {info.last_sequence}: {expected}",
        )

    def add(
        self,
        info: BatchInfo,
        base_offset: int,
        timestamp: int,
        now_ms: int,
        bytes_before: int = 0,
    ) -> None:
        """Remember a batch that was appended, or read from files; it is not checked.

        Args:
            info: its header.
            base_offset: where it lies.
            timestamp: the largest of its records.
            now_ms: by the broker's clock.
            bytes_before: see `Undecided`.
        """
        state = self._state(info.producer_id, info.producer_epoch, timestamp, now_ms)
        if info.attributes & _TRANSACTIONAL and state.first_offset < 0:
            self._begin(info.producer_id, state, Undecided(base_offset, bytes_before))
        if info.base_sequence < 0:
            return
        if len(state.batches) >= self.window:
            del state.batches[0]
        state.batches.append(
            ProducedBatch(
                info.base_sequence,
                info.last_sequence,
                base_offset,
                base_offset + info.last_offset_delta,
                timestamp,
            )
        )

    def _state(self, producer_id: int, epoch: int, timestamp: int, now_ms: int) -> ProducerState:
        """What is known of a producer of which something new is heard; its epoch is that one."""
        state = self._states.get(producer_id)
        if state is None:
            state = ProducerState(epoch, now_ms)
            self._states[producer_id] = state
        elif state.epoch != epoch or self._is_expired(state, now_ms):
            state.epoch = epoch
            state.batches.clear()
        state.seen_ms = now_ms
        state.timestamp = timestamp
        return state

    # Transactions.

    def _begin(self, producer_id: int, state: ProducerState, begun: Undecided) -> None:
        state.first_offset = begun.first_offset
        self._open[producer_id] = begun
        if self.undecided is None:
            self.undecided = begun

    def first_offset_of(self, producer_id: int) -> int:
        """Where the open transaction of a producer begins; -1: none is open."""
        begun = self._open.get(producer_id)
        return -1 if begun is None else begun.first_offset

    def undecided_without(self, producer_id: int) -> int | None:
        """The oldest offset that is undecided once a producer's transaction is over, or None."""
        others = (each.first_offset for key, each in self._open.items() if key != producer_id)
        return next(others, None)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer of that epoch has a transaction open here."""
        state = self._states.get(producer_id)
        return state is not None and state.first_offset >= 0 and state.epoch == epoch

    def check_marker(self, marker: EndTransactionMarker) -> None:
        """Refuse a marker of an older producer or coordinator (B-C7.6).

        Raises:
            LogError: it is one.
        """
        state = self._states.get(marker.producer.id)
        if state is None:
            return
        self._check_epoch(state, *marker.producer)
        is_open = state.first_offset >= 0
        if is_open and marker.has_own_epoch and marker.producer.epoch == state.epoch:
            raise LogError(
                INVALID_PRODUCER_EPOCH,
                f"a marker for producer {marker.producer.id} comes late: its epoch {state.epoch} "
                f"is that of the transaction that is open",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise LogError(
                TRANSACTION_COORDINATOR_FENCED,
                f"a marker for producer {marker.producer.id} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, the partition has seen {state.coordinator_epoch}",
            )

    def end_transaction(self, marker: EndTransactionMarker, timestamp: int, now_ms: int) -> None:
        """Note a marker that was appended: what it ends is decided; it is not checked."""
        state = self._state(*marker.producer, timestamp, now_ms)
        state.coordinator_epoch = marker.coordinator_epoch
        state.first_offset = -1
        if self._open.pop(marker.producer.id, None) is not None:
            self.undecided = next(iter(self._open.values()), None)

    # Snapshots, and the end.

    def restore(self, producer_id: int, state: ProducerState) -> None:
        """Restore a producer from a snapshot; see `restored`."""
        self._states[producer_id] = state

    def restored(self) -> None:
        """All of a snapshot is there: find the transactions that are open."""
        begun = {
            key: Undecided(state.first_offset, 0)
            for key, state in self._states.items()
            if state.first_offset >= 0
        }
        self._open = dict(sorted(begun.items(), key=lambda item: item[1]))
        self.undecided = next(iter(self._open.values()), None)

    def expire(self, now_ms: int) -> int:
        """Forget those that have been silent for too long (B-C6.6); returns how many."""
        expired = [
            producer_id
            for producer_id, state in self._states.items()
            if self._is_expired(state, now_ms)
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)


def _not_in_transaction(info: BatchInfo) -> LogError:
    return LogError(
        INVALID_TXN_STATE,
        f"producer {info.producer_id}, epoch {info.producer_epoch}, has no transaction open here",
    )
