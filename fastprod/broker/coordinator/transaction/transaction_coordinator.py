"""TransactionCoordinator: decides what becomes of each request about a transaction.

Source: TransactionCoordinator of Apache Kafka; KIP-98, KIP-360, KIP-588, KIP-664, KIP-890; contract
B-E4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.producer_ids import ProducerIds
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.delayed_call import DelayedCall
from fastprod.broker.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.end_transaction import plan_end
from fastprod.broker.coordinator.transaction.transaction_markers import TransactionMarkers
from fastprod.broker.coordinator.transaction.transaction_metadata import (
    PREPARED,
    TV_0,
    TV_2,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
    TxnTransitMetadata,
    is_exhausted,
)
from fastprod.broker.coordinator.transaction.transaction_state_manager import (
    TransactionStateManager,
)
from fastprod.broker.log.record_batch import NO_PRODUCER, Producer
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    NOT_COORDINATOR,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)

_log = logging.getLogger(__name__)

# So long after it could not write a marker it tries again.
_RETRY_MS: Final = 100

R = TypeVar("R")


class TransactionCoordinator:
    """The transactions of a cluster; each is coordinated by the node that leads its partition.

    Any thread. A transaction is changed under its lock, and what changes it is done when the call
    returns, markers included, unless a partition cannot be written to now.

    Args:
        config: of transactions.
        topics: where __transaction_state is, and the partitions.
        clock: for time-outs.
        purgatory: of the same clock.
        worker: for what takes long.
        producer_ids: gives producer ids away.
        offsets: decides about those of groups.
        appended: called with a partition that has grown, without a lock.

    Attributes:
        manager: its transactional ids.
        markers: writes the ends of transactions.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        clock: Clock,
        purgatory: DelayedOperationPurgatory,
        worker: OverflowWorker,
        producer_ids: ProducerIds,
        offsets: OffsetMetadataManager,
        appended: Callable[[Partition], object],
    ) -> None:
        self._config = config
        self._clock = clock
        self._purgatory = purgatory
        self._worker = worker
        self._producer_ids = producer_ids
        self._is_watching = False
        self.markers = TransactionMarkers(topics, offsets, appended)
        self.manager = TransactionStateManager(
            config, topics, clock, worker, appended, self._loaded, self._unloaded
        )

    # The broker's life.

    def begin(self) -> None:
        """Go on with what an earlier run, or another coordinator, has left open. Does not block.

        A transaction whose producer is gone is found out by nobody else.
        """
        if self.manager.has_topic:
            self._worker.put(self._load_all)

    def _load_all(self) -> None:
        self.manager.loaded_items(None)

    def leaders_moved(self) -> None:
        """Let go of what another node coordinates now, and have that go on with it."""
        self.manager.drop_moved()
        self.begin()

    def close(self) -> None:
        """Let go of everything; transactions stay as they are in the log. May be repeated."""
        self.manager.close()

    def _loaded(self, metadata: TransactionMetadata) -> None:
        if metadata.now.state in PREPARED:
            metadata.unmarked = dict.fromkeys(metadata.now.partitions)
            self._complete(metadata)
        elif metadata.now.state is TransactionState.ONGOING:
            self._watch_transaction(metadata)
        self._watch_expiration()

    def _unloaded(self, metadata: TransactionMetadata) -> None:
        if metadata.deadline is not None:
            self._purgatory.withdraw(metadata.deadline)
            metadata.deadline = None

    def existing(self, transactional_id: str, node_id: int | None) -> TransactionMetadata | None:
        """What is known of a transactional id; None: nothing.

        Args:
            transactional_id: its name.
            node_id: the node that was asked; None: whichever coordinates it.

        Raises:
            CoordinatorError: the node does not coordinate it, or not yet.
        """
        metadata = self.manager.item(transactional_id, node_id)
        return None if metadata is None or metadata.now.producer_epoch < 0 else metadata

    # A producer begins.

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, node_id: int
    ) -> tuple[int, Producer]:
        """Give a producer its id and epoch, and fence the one that had them before.

        Args:
            transactional_id: its name.
            timeout_ms: its transactions are aborted when they are open for longer.
            expected: what it has; None: nothing.
            node_id: the node that was asked.

        Returns:
            NONE or Kafka's code, and what it was given.

        Raises:
            OSError: producer ids cannot be written down.
        """
        if not transactional_id:
            return INVALID_REQUEST, NO_PRODUCER
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            return INVALID_TRANSACTION_TIMEOUT, NO_PRODUCER
        try:
            metadata = self.manager.item(transactional_id, node_id, creates=True)
        except CoordinatorError as error:
            return error.code, NO_PRODUCER
        assert metadata is not None
        self._watch_expiration()
        with metadata.lock:
            if metadata.is_dead:
                return NOT_COORDINATOR, NO_PRODUCER
            code = self._init(metadata, timeout_ms, expected)
            return code, metadata.now.producer if code == NONE else NO_PRODUCER

    def _init(
        self, metadata: TransactionMetadata, timeout_ms: int, expected: Producer | None
    ) -> int:
        now, now_ms = metadata.now, self._clock.time_ms()
        if expected is not None and not _may_be(expected, now):
            return PRODUCER_FENCED
        if now.state in PREPARED:
            return CONCURRENT_TRANSACTIONS
        if now.state is TransactionState.ONGOING:
            # It asks again, and gets an epoch that comes after the one that ends this transaction.
            code = self._fence(metadata)
            return CONCURRENT_TRANSACTIONS if code == NONE else code
        epoch = now.producer_epoch
        if is_exhausted(epoch) and (expected is None or expected.epoch == epoch):
            taken = self._producer_ids.take()
            return self.manager.store(
                metadata, now.rotated(taken, timeout_ms, expected is not None, now_ms)
            )
        if epoch < 0:
            now = now._replace(producer_id=self._producer_ids.take())
        next_now = now.incremented(timeout_ms, None if expected is None else expected.epoch, now_ms)
        if next_now is None:
            return PRODUCER_FENCED
        return self.manager.store(metadata, next_now)

    # Partitions.

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        places: Collection[TopicPartition],
        node_id: int | None,
        client_version: int = TV_0,
    ) -> int:
        """Have partitions belong to a transaction; the first ones begin it.

        Returns:
            NONE or Kafka's code, for all of them.
        """
        if not transactional_id:
            return INVALID_REQUEST
        try:
            with self._locked(transactional_id, node_id) as metadata:
                return self._add(metadata, producer, frozenset(places), client_version)
        except CoordinatorError as error:
            return error.code

    def verify_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        places: Collection[TopicPartition],
        node_id: int | None,
    ) -> dict[TopicPartition, int]:
        """Whether partitions belong to a transaction: NONE or Kafka's code of each."""
        if not transactional_id:
            return dict.fromkeys(places, INVALID_REQUEST)
        try:
            with self._locked(transactional_id, node_id) as metadata:
                return {each: _verify(metadata, producer, each) for each in places}
        except CoordinatorError as error:
            return dict.fromkeys(places, error.code)

    def in_transaction(
        self,
        transactional_id: str,
        producer: Producer,
        place: TopicPartition,
        adds: bool,
        action: Callable[[], R],
    ) -> R:
        """Do something that belongs to a transaction; it does not end before that is done.

        Args:
            transactional_id: its name.
            producer: who does it.
            place: the partition that it changes.
            adds: have that belong to the transaction, as with KIP-890; else it must do so already.
            action: what is done, with the transaction's lock held.

        Returns:
            What `action` returns.

        Raises:
            CoordinatorError: it is no part of the transaction.
        """
        with self._locked(transactional_id, None) as metadata:
            if adds:
                code = self._add(metadata, producer, frozenset((place,)), TV_2)
            else:
                code = _verify(metadata, producer, place)
            if code != NONE:
                raise CoordinatorError(code)
            return action()

    def _locked(self, transactional_id: str, node_id: int | None) -> _Locked:
        """The lock of a transactional id, for `with`.

        Raises:
            CoordinatorError: there is no such id, or it is not coordinated there.
        """
        metadata = self.existing(transactional_id, node_id)
        if metadata is None:
            raise CoordinatorError(INVALID_PRODUCER_ID_MAPPING)
        return _Locked(metadata)

    def _add(
        self,
        metadata: TransactionMetadata,
        producer: Producer,
        places: frozenset[TopicPartition],
        client_version: int,
    ) -> int:
        now = metadata.now
        code = _refusal(now, producer)
        if code != NONE:
            return code
        if now.state is TransactionState.ONGOING and places <= now.partitions:
            return NONE
        now_ms = self._clock.time_ms()
        code = self.manager.store(metadata, now.with_partitions(places, client_version, now_ms))
        if code == NONE and now.state is not TransactionState.ONGOING:
            self._watch_transaction(metadata)
        return code

    # The end.

    def end_transaction(
        self,
        transactional_id: str,
        producer: Producer,
        is_commit: bool,
        client_version: int,
        node_id: int,
    ) -> tuple[int, Producer]:
        """Commit or abort a transaction.

        Args:
            transactional_id: its name.
            producer: whose it is.
            is_commit: False: it is aborted.
            client_version: TV_0, or TV_2: the producer goes on with another epoch.
            node_id: the node that was asked.

        Returns:
            NONE or Kafka's code, and what the producer goes on with.

        Raises:
            OSError: producer ids cannot be written down.
        """
        if not transactional_id:
            return INVALID_REQUEST, NO_PRODUCER
        try:
            with self._locked(transactional_id, node_id) as metadata:
                plan = plan_end(metadata.now, producer, is_commit, client_version)
                if plan.code != NONE:
                    return plan.code, NO_PRODUCER
                if not plan.ends:
                    return NONE, metadata.now.producer
                return self._end(metadata, is_commit, client_version)
        except CoordinatorError as error:
            return error.code, NO_PRODUCER

    def _end(
        self, metadata: TransactionMetadata, is_commit: bool, client_version: int
    ) -> tuple[int, Producer]:
        now = metadata.now
        rotates = client_version >= TV_2 and is_exhausted(now.producer_epoch)
        next_id = self._producer_ids.take() if rotates else -1
        ending = now.ending(is_commit, client_version, next_id, self._clock.time_ms())
        code = self._decide(metadata, ending)
        return code, ending.next_producer if code == NONE else NO_PRODUCER

    def _fence(self, metadata: TransactionMetadata) -> int:
        """Abort a transaction that its producer will not end; that has an old epoch then."""
        now = metadata.now
        ending = now.fenced().ending(False, TV_0, -1, self._clock.time_ms())
        # Its markers bump no epoch beyond the one that fences.
        return self._decide(metadata, ending._replace(client_version=now.client_version))

    def _decide(self, metadata: TransactionMetadata, ending: TxnTransitMetadata) -> int:
        code = self.manager.store(metadata, ending)
        if code == NONE:
            # From now on nothing but this can become of it, whatever happens.
            metadata.unmarked = dict.fromkeys(ending.partitions)
            self._complete(metadata)
        return code

    def _complete(self, metadata: TransactionMetadata) -> None:
        """Write the markers of a decided transaction, and note its end; or try again later."""
        self.markers.write(metadata)
        code = NOT_COORDINATOR
        if not metadata.unmarked:
            code = self.manager.store(metadata, metadata.now.completed(self._clock.time_ms()))
        if code != NONE:
            self._watch(metadata, self._clock.time_ms() + _RETRY_MS)

    # Time.

    def _watch_transaction(self, metadata: TransactionMetadata) -> None:
        """Have a transaction aborted when its time is over; its lock is held."""
        now = metadata.now
        self._watch(metadata, now.start_ms + now.timeout_ms)

    def _watch(self, metadata: TransactionMetadata, due_ms: int) -> None:
        """Have `_due` called at that time. One deadline serves for many transactions."""
        before = metadata.deadline
        if before is not None and metadata.deadline_ms <= due_ms:
            return
        if before is not None:
            self._purgatory.withdraw(before)
        delay_ms = max(due_ms - self._clock.time_ms(), 0)
        operation = DelayedCall(delay_ms, lambda: self._due(metadata, operation))
        metadata.deadline, metadata.deadline_ms = operation, due_ms
        self._purgatory.complete_or_watch(operation, (operation,))

    def _due(self, metadata: TransactionMetadata, operation: DelayedCall) -> None:
        with metadata.lock:
            if metadata.is_dead or metadata.deadline is not operation:
                return
            metadata.deadline = None
            now = metadata.now
            if now.state in PREPARED:
                self._complete(metadata)
            elif now.state is TransactionState.ONGOING:
                if self._clock.time_ms() < now.start_ms + now.timeout_ms:
                    self._watch_transaction(metadata)
                    return
                _log.info(
                    "%r is aborted: it is open for longer than %d ms", metadata, now.timeout_ms
                )
                if self._fence(metadata) != NONE:
                    self._watch(metadata, self._clock.time_ms() + _RETRY_MS)

    def _watch_expiration(self) -> None:
        if self._is_watching:
            return
        self._is_watching = True
        delay_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        operation = DelayedCall(delay_ms, self._expire_and_watch)
        self._purgatory.complete_or_watch(operation, (operation,))

    def _expire_and_watch(self) -> None:
        self._is_watching = False
        self.expire()
        if self.manager.all_items():
            self._watch_expiration()

    def expire(self) -> None:
        """Forget transactional ids that nobody has used for long (transactional.id.expiration)."""
        before_ms = self._clock.time_ms() - self._config.transactional_id_expiration_ms
        for metadata in self.manager.all_items():
            with metadata.lock:
                now = metadata.now
                is_open = now.state in (*PREPARED, TransactionState.ONGOING)
                if metadata.is_dead or is_open or now.update_ms > before_ms:
                    continue
                if now.producer_epoch < 0 or self.manager.store(metadata, None) == NONE:
                    metadata.is_dead = True
                    self.manager.forget(metadata)


class _Locked:
    """A transactional id for `with`, its lock held."""

    __slots__ = ("_metadata",)

    def __init__(self, metadata: TransactionMetadata) -> None:
        self._metadata = metadata

    def __enter__(self) -> TransactionMetadata:
        self._metadata.lock.__enter__()
        if self._metadata.is_dead:
            self._metadata.lock.__exit__(None, None, None)
            raise CoordinatorError(NOT_COORDINATOR)
        return self._metadata

    def __exit__(self, *error: object) -> None:
        self._metadata.lock.__exit__(None, None, None)


def _may_be(expected: Producer, now: TxnTransitMetadata) -> bool:
    """Whether a producer that has an id already may be the one of this transactional id."""
    if now.producer_epoch == -1 or expected.id == now.producer_id:
        return True
    return expected.id == now.previous_producer_id and is_exhausted(expected.epoch)


def _refusal(now: TxnTransitMetadata, producer: Producer) -> int:
    """NONE, or why a producer may not change its transaction now."""
    if now.producer_id != producer.id:
        return INVALID_PRODUCER_ID_MAPPING
    if now.producer_epoch != producer.epoch:
        return PRODUCER_FENCED
    return CONCURRENT_TRANSACTIONS if now.state in PREPARED else NONE


def _verify(metadata: TransactionMetadata, producer: Producer, place: TopicPartition) -> int:
    now = metadata.now
    code = _refusal(now, producer)
    if code == NONE and place not in now.partitions:
        return TRANSACTION_ABORTABLE
    return code
