"""TransactionMarkers: writes the end of a transaction into each of its partitions.

It stands for Kafka's TransactionMarkerChannelManager: all nodes share one set of logs, so that no
WriteTxnMarkers has to be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from fastprod.broker.cluster.partition import NO_NODE, Partition, PartitionDeleted
from fastprod.broker.cluster.topics import OFFSETS_TOPIC, Topics
from fastprod.broker.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TransactionMetadata,
    TransactionState,
)
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import LogError
from fastprod.error_codes import (
    INVALID_PRODUCER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)

_log = logging.getLogger(__name__)

# Nothing is left to write where these are the answer: a newer end was there before.
_DONE = (NONE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED)


class TransactionMarkers:
    """Ends transactions in partitions. Any thread.

    Args:
        topics: where the partitions are.
        offsets: decides about those of groups.
        appended: called with a partition that has grown, without a lock.
    """

    def __init__(
        self,
        topics: Topics,
        offsets: OffsetMetadataManager,
        appended: Callable[[Partition], object],
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._appended = appended

    def write(self, metadata: TransactionMetadata) -> None:
        """Write markers into `unmarked`; what stays there has to be tried again. Its lock is held.

        A partition without a leader, or whose groups are being loaded, is not written to now.
        """
        now = metadata.now
        is_commit = now.state is TransactionState.PREPARE_COMMIT
        epoch = metadata.partition.leader_epoch
        marker = EndTransactionMarker(now.producer, epoch, is_commit)
        for place in sorted(metadata.unmarked):
            partition = self._topics.partition(*place)
            code = UNKNOWN_TOPIC_OR_PARTITION
            if partition is not None:
                code = self.write_one(partition, marker)
                metadata.lock.defer(partial(self._appended, partition))
            if code in _DONE:
                metadata.unmarked.discard(place)

    def write_one(self, partition: Partition, marker: EndTransactionMarker) -> int:
        """Write one marker; returns NONE or Kafka's code. The caller wakes the readers."""
        if partition.leader == NO_NODE:
            return NOT_LEADER_OR_FOLLOWER
        try:
            if partition.topic == OFFSETS_TOPIC:
                self._offsets.end_transaction(partition, marker)
            else:
                partition.append_marker(marker)
        except PartitionDeleted:
            return UNKNOWN_TOPIC_OR_PARTITION
        except CoordinatorError as error:
            return error.code
        except LogError as error:
            if error.error_code == KAFKA_STORAGE_ERROR:
                _log.error("the end of a transaction is not written: %s", error.message)
            return error.error_code
        return NONE
