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
    WrittenMarker,
)
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import LogError
from fastprod.error_codes import (
    INVALID_PRODUCER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)

_log = logging.getLogger(__name__)

# As many replicas have a marker as there are in sync.
_REPLICATED = (NONE, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
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

        A partition without a leader, or whose groups are being loaded, is not written to now. A
        marker counts when all replicas in sync have it: another leader must not lack it. Nobody is
        waited for, and it is written once more only if the leader has changed.
        """
        now = metadata.now
        is_commit = now.state is TransactionState.PREPARE_COMMIT
        epoch = metadata.partition.leader_epoch
        marker = EndTransactionMarker(now.producer, epoch, is_commit)
        for place in sorted(metadata.unmarked):
            partition = self._topics.partition(*place)
            written = metadata.unmarked[place]
            code = UNKNOWN_TOPIC_OR_PARTITION
            if partition is not None and (written is None or written.partition is partition):
                if written is None or _fate(written) == NOT_LEADER_OR_FOLLOWER:
                    code, written = self.write_one(partition, marker)
                    metadata.lock.defer(partial(self._appended, partition))
                else:
                    code = NONE
                if written is not None and _fate(written) not in _REPLICATED:
                    metadata.unmarked[place] = written
                    continue
            if code in _DONE:
                del metadata.unmarked[place]

    def write_one(
        self, partition: Partition, marker: EndTransactionMarker
    ) -> tuple[int, WrittenMarker | None]:
        """Write one marker; NONE and where it is, or Kafka's code and None.

        The caller wakes the readers, and waits for the replicas.
        """
        if partition.leader == NO_NODE:
            return NOT_LEADER_OR_FOLLOWER, None
        try:
            if partition.topic == OFFSETS_TOPIC:
                appended = self._offsets.end_transaction(partition, marker)
            else:
                appended = partition.append_marker(marker)
            return NONE, WrittenMarker(partition, appended)
        except PartitionDeleted:
            return UNKNOWN_TOPIC_OR_PARTITION, None
        except CoordinatorError as error:
            return error.code, None
        except LogError as error:
            if error.error_code == KAFKA_STORAGE_ERROR:
                _log.error("the end of a transaction is not written: %s", error.message)
            return error.error_code, None


def _fate(written: WrittenMarker) -> int | None:
    """What has become of a marker; None: replicas in sync do not have it yet."""
    return written.partition.error_of_append(*written.at)
