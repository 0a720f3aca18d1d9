"""TransactionStateManager: the transactional ids of a cluster, and the log that keeps them.

An id belongs to one partition of __transaction_state, and the node that leads the partition
coordinates its transactions.

Source: TransactionStateManager of Apache Kafka; contract B-E1, B-E4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import TRANSACTION_TOPIC, Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.partitioned_state import PartitionedState, StateTopic, batches_of
from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TransactionMetadata,
    TxnTransitMetadata,
)
from fastprod.broker.coordinator.transaction.transaction_records import (
    read_transaction,
    read_transactional_id,
    transaction_entry,
)
from fastprod.broker.log.record_batch import LogEntry
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_COORDINATOR,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
)
from fastprod.protocol.schema import SchemaError

_log = logging.getLogger(__name__)

_CODES = {
    MESSAGE_TOO_LARGE: UNKNOWN_SERVER_ERROR,
    RECORD_LIST_TOO_LARGE: UNKNOWN_SERVER_ERROR,
    KAFKA_STORAGE_ERROR: NOT_COORDINATOR,
}
"""What a client is told in place of what the log says."""


class TransactionStateManager(PartitionedState[TransactionMetadata]):
    """Finds, loads, stores and forgets transactional ids; see `PartitionedState`.

    Args:
        config: of the topic.
        topics: where it is.
        clock: the broker's.
        worker: where long logs are read and written.
        appended: called with a partition that has grown, without a lock.
        loaded: called with each id that was read, its lock held.
        unloaded: called with each id of another coordinator, its lock held.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        clock: Clock,
        worker: OverflowWorker,
        appended: Callable[[Partition], object],
        loaded: Callable[[TransactionMetadata], None],
        unloaded: Callable[[TransactionMetadata], None],
    ) -> None:
        topic = StateTopic(
            TRANSACTION_TOPIC,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {"min.insync.replicas": str(config.transaction_state_log_min_isr)},
        )
        super().__init__(topic, topics, clock, worker, appended)
        self._loaded_callback = loaded
        self._unloaded_callback = unloaded

    def _new(self, key: str, partition: Partition) -> TransactionMetadata:
        return TransactionMetadata(key, partition, TxnTransitMetadata(-1, -1, 0, 0))

    def _on_loaded(self, item: TransactionMetadata) -> None:
        self._loaded_callback(item)

    def _on_unloaded(self, item: TransactionMetadata, code: int) -> None:
        item.is_dead = True
        self._unloaded_callback(item)

    def _live_entries(self, item: TransactionMetadata) -> list[LogEntry] | None:
        # One that was never given to a producer is not in the log.
        is_stored = item.now.producer_epoch >= 0
        return [transaction_entry(item.transactional_id, item.now)] if is_stored else []

    def _replay(self, partition: Partition) -> list[TransactionMetadata]:
        found: dict[str, TxnTransitMetadata] = {}
        for batch in batches_of(partition):
            for record in batch.records() if not batch.is_control else ():
                transactional_id = read_transactional_id(record.key or b"")
                if transactional_id is None:
                    continue
                if record.value is None:
                    found.pop(transactional_id, None)
                else:
                    found[transactional_id] = read_transaction(record.value)
        return [TransactionMetadata(key, partition, now) for key, now in found.items()]

    def store(self, metadata: TransactionMetadata, now: TxnTransitMetadata | None) -> int:
        """Write down what becomes of an id, or that it is forgotten (None); its lock is held.

        Returns:
            NONE: it is so now. Else Kafka's code, and nothing has changed.
        """
        try:
            entry = transaction_entry(metadata.transactional_id, now)
        except SchemaError as error:
            _log.error("%r cannot be written down: %s", metadata, error)
            return UNKNOWN_SERVER_ERROR
        code = self.append(metadata, [entry])
        if code == NONE and now is not None:
            metadata.now = now
        return _CODES.get(code, code)
