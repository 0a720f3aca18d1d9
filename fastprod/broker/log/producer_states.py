"""What a partition remembers of its idempotent producers (B-C6, ProducerStateManager)."""

from __future__ import annotations

from typing import Final, NamedTuple

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.log.log_error import LogError
from fastprod.error_codes import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER

_SEQUENCE_MAX: Final = 2**31 - 1


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
    """One producer id in one partition.

    Attributes:
        epoch: the newest seen.
        batches: the last ones of that epoch, oldest first.
        seen_ms: the broker's clock at the last batch.
    """

    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.seen_ms = seen_ms

    @property
    def last_sequence(self) -> int:
        """Last sequence of the last batch; -1: none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


def next_sequence(sequence: int) -> int:
    """The sequence that comes next: after 2**31 - 1 comes 0."""
    return 0 if sequence == _SEQUENCE_MAX else sequence + 1


class ProducerStates:
    """Producers by id. The caller has a lock.

    Args:
        window: batches remembered for each producer.
        expiration_ms: silence after which one is forgotten.
    """

    def __init__(self, window: int, expiration_ms: int) -> None:
        self.window = window
        self.expiration_ms = expiration_ms
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer."""
        return self._states.get(producer_id)

    def items(self) -> list[tuple[int, ProducerState]]:
        """Every producer by id."""
        return sorted(self._states.items())

    def check(self, info: BatchInfo, now_ms: int) -> ProducedBatch | None:
        """Decide about a batch with a producer id (table B-C6.2).

        Returns:
            None: append it; else the earlier batch that it repeats.

        Raises:
            LogError: wrong epoch or sequence.
        """
        state = self._states.get(info.producer_id)
        if state is None or now_ms - state.seen_ms >= self.expiration_ms:
            return None
        epoch, first = info.producer_epoch, info.base_sequence
        if epoch < state.epoch:
            raise LogError(
                INVALID_PRODUCER_EPOCH,
                f"producer {info.producer_id} comes with epoch {epoch}, the partition has seen "
                f"epoch {state.epoch}: another producer has taken its place",
            )
        if epoch > state.epoch:
            if first != 0:
                raise self._out_of_order(info, f"a new epoch after {state.epoch} begins with 0")
            return None
        for batch in state.batches:
            if batch[:2] == (first, info.last_sequence):
                return batch
        if first != next_sequence(state.last_sequence):
            raise self._out_of_order(
                info, f"expected {next_sequence(state.last_sequence)} after the last batch"
            )
        return None

    def _out_of_order(self, info: BatchInfo, expected: str) -> LogError:
        return LogError(
            OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {info.producer_id}, epoch {info.producer_epoch}, comes with sequences "
            f"{info.base_sequence} to {info.last_sequence}: {expected}",
        )

    def add(self, info: BatchInfo, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Remember a batch that was appended, or read from files; it is not checked."""
        state = self._states.get(info.producer_id)
        if state is None:
            state = ProducerState(info.producer_epoch, now_ms)
            self._states[info.producer_id] = state
        elif state.epoch != info.producer_epoch or now_ms - state.seen_ms >= self.expiration_ms:
            state.epoch = info.producer_epoch
            state.batches.clear()
        state.seen_ms = now_ms
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

    def restore(self, producer_id: int, state: ProducerState) -> None:
        """Restore a producer from a snapshot."""
        self._states[producer_id] = state

    def expire(self, now_ms: int) -> int:
        """Forget those that have been silent for too long (B-C6.6); returns how many."""
        expired = [
            producer_id
            for producer_id, state in self._states.items()
            if now_ms - state.seen_ms >= self.expiration_ms
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)
