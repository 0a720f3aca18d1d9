"""TransactionMetadata: one transactional id, its producer, and what its transaction is doing.

Source: TransactionMetadata, TransactionState and TxnTransitMetadata of Apache Kafka; KIP-98,
KIP-360, KIP-890; contract B-E4.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from fastprod.broker.cluster.partition import AppendedAt, Partition
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.threads.deferring_lock import DeferringLock
from fastprod.broker.threads.purgatory import DelayedOperation

TopicPartition = tuple[str, int]
"""Name of a topic, number of a partition."""

TV_0, TV_2 = 0, 2
"""Levels of transaction.version that clients speak: before KIP-890, and with it."""

_LAST_EPOCH: Final = 2**15 - 1


class TransactionState(Enum):
    """What a transaction is doing; the values are Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


def is_exhausted(epoch: int) -> bool:
    """Whether no producer may have the epoch after this one: the last is kept for fencing."""
    return epoch >= _LAST_EPOCH - 1


class TxnTransitMetadata(NamedTuple):
    """A transactional id at one moment; a change makes another one. Times in ms since 1970.

    Attributes:
        producer_id: given to its producer.
        producer_epoch: -1: nobody has asked for one yet.
        previous_producer_id: before the last change; -1: none.
        next_producer_id: the one after this transaction, as the epochs are used up; -1: the same.
        last_producer_epoch: before the last change, to know a repeated request by; -1: none.
        timeout_ms: a transaction that is open for longer is aborted.
        state: what it is doing.
        partitions: those of the transaction.
        start_ms: when it began; -1: none did.
        update_ms: when it last changed.
        client_version: TV_0 or TV_2, as of the last change by a client.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    update_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    last_producer_epoch: int = -1
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    client_version: int = TV_0

    @property
    def producer(self) -> Producer:
        """Id and epoch."""
        return Producer(self.producer_id, self.producer_epoch)

    def incremented(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TxnTransitMetadata | None:
        """With the next epoch, for a producer that begins (KIP-360).

        Args:
            timeout_ms: of its transactions.
            expected_epoch: the one it has; None: it is new.
            now_ms: by the broker's clock.

        Returns:
            None: another producer has taken its place.
        """
        epoch = self.producer_epoch
        bumped, last = epoch + 1, -1
        if expected_epoch is not None and epoch != -1:
            if expected_epoch == epoch:
                last = epoch
            elif expected_epoch == self.last_producer_epoch:
                # It asks again, and gets what it was given.
                bumped, last = epoch, self.last_producer_epoch
            else:
                return None
        return self._begun(self.producer_id, bumped, last, timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, is_expected: bool, now_ms: int
    ) -> TxnTransitMetadata:
        """With another producer id, as the epochs of this one are used up."""
        last = self.producer_epoch if is_expected else -1
        return self._begun(producer_id, 0, last, timeout_ms, now_ms)

    def _begun(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TxnTransitMetadata:
        return self._replace(
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=-1,
            update_ms=now_ms,
        )

    def fenced(self) -> TxnTransitMetadata:
        """With the next epoch: who has this one can do nothing, but ask for the next (KIP-588).

        The last epoch of all is given to nobody.
        """
        epoch = self.producer_epoch
        last_epoch = -1 if is_exhausted(epoch) else epoch
        return self._replace(producer_epoch=epoch + 1, last_producer_epoch=last_epoch)

    def with_partitions(
        self, added: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> TxnTransitMetadata:
        """With more partitions; the first ones begin a transaction."""
        is_open = self.state is TransactionState.ONGOING
        return self._replace(
            previous_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=self.partitions | added,
            start_ms=self.start_ms if is_open else now_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def ending(
        self, is_commit: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> TxnTransitMetadata:
        """With its end decided; with KIP-890 with the next epoch, too.

        Args:
            is_commit: False: it is aborted.
            client_version: TV_0 or TV_2.
            next_producer_id: the one to go on with; -1: this one.
            now_ms: by the broker's clock.
        """
        bumps = client_version >= TV_2
        is_open = self.state is TransactionState.ONGOING
        return self._replace(
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=self.producer_epoch + bumps,
            last_producer_epoch=self.producer_epoch if bumps else self.last_producer_epoch,
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            start_ms=self.start_ms if is_open else now_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> TxnTransitMetadata:
        """With all markers written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        goes_on = self.next_producer_id == -1 or self.client_version < TV_2
        return self._replace(
            producer_id=self.producer_id if goes_on else self.next_producer_id,
            producer_epoch=self.producer_epoch if goes_on else 0,
            previous_producer_id=self.producer_id,
            next_producer_id=-1,
            state=TransactionState.COMPLETE_COMMIT
            if is_commit
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            update_ms=now_ms,
        )

    @property
    def next_producer(self) -> Producer:
        """What the producer goes on with, once the end is decided."""
        if self.next_producer_id != -1:
            return Producer(self.next_producer_id, 0)
        return self.producer


class WrittenMarker(NamedTuple):
    """A marker that its partition's leader has.

    Attributes:
        partition: where it is.
        at: what the partition is asked with whether its replicas in sync have it.
    """

    partition: Partition
    at: AppendedAt


class TransactionMetadata:
    """One transactional id. All but the first three is guarded by `lock`.

    Args:
        transactional_id: its name.
        partition: of __transaction_state, where it is kept.
        now: what is known of it.

    Attributes:
        now: what the log has of it.
        unmarked: partitions of a decided transaction whose markers are not written yet (None), or
            may not be with all replicas in sync.
        deadline: when the transaction, or another try to write markers, is due.
        is_dead: another node coordinates it, or it was forgotten.
    """

    __slots__ = (
        "deadline",
        "deadline_ms",
        "is_dead",
        "lock",
        "now",
        "partition",
        "transactional_id",
        "unmarked",
    )

    def __init__(
        self, transactional_id: str, partition: Partition, now: TxnTransitMetadata
    ) -> None:
        self.transactional_id = transactional_id
        self.partition = partition
        self.lock = DeferringLock()
        self.now = now
        self.unmarked: dict[TopicPartition, WrittenMarker | None] = {}
        self.deadline: DelayedOperation | None = None
        self.deadline_ms = 0
        self.is_dead = False

    @property
    def key(self) -> str:
        """Its name, as `PartitionedState` asks for it."""
        return self.transactional_id

    def __repr__(self) -> str:
        producer_id, epoch = self.now.producer
        return (
            f"TransactionMetadata({self.transactional_id!r}, {self.now.state.value}, producer "
            f"{producer_id}, epoch {epoch})"
        )
