"""EndTxn and WriteTxnMarkers: how transactions end (B-E4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.coordinator.transaction.transaction_markers import TransactionMarkers
from fastprod.broker.coordinator.transaction.transaction_metadata import TV_0, TV_2
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.transaction.contents import fenced_code, may_write
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.transaction.end_txn import EndTxnRequest, EndTxnResponse
from fastprod.protocol.messages.transaction.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_FIRST_BUMPING_VERSION: Final = 5


class EndTxnApi:
    """Handles EndTxn. Any thread.

    Args:
        coordinator: of all transactions.
    """

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, call: Call[EndTxnRequest]) -> None:
        """Commit or abort; readers see it when this is answered."""
        message = call.message
        if not may_write(call, message.transactional_id):
            self.refuse(call, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
            return
        code, producer = self._coordinator.end_transaction(
            message.transactional_id,
            Producer(message.producer_id, message.producer_epoch),
            message.committed,
            TV_2 if call.version >= _FIRST_BUMPING_VERSION else TV_0,
            call.node_id,
        )
        call.answer(
            EndTxnResponse(
                error_code=fenced_code(code, call.version),
                producer_id=producer.id,
                producer_epoch=producer.epoch,
            )
        )

    def refuse(self, call: Call[EndTxnRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(EndTxnResponse(error_code=code))


class WriteTxnMarkersApi:
    """Handles WriteTxnMarkers, by which an admin ends what no coordinator will. Any thread.

    Args:
        markers: writes them.
        topics: where the partitions are.
        appended: called with a partition that has grown.
    """

    def __init__(
        self,
        markers: TransactionMarkers,
        topics: Topics,
        appended: Callable[[Partition], object],
    ) -> None:
        self._markers = markers
        self._topics = topics
        self._appended = appended

    def handle(self, call: Call[WriteTxnMarkersRequest]) -> None:
        """Write them, and answer for each partition."""
        if not (
            call.allows_cluster(Operation.ALTER) or call.allows_cluster(Operation.CLUSTER_ACTION)
        ):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        grown: list[Partition] = []
        _answer(call, lambda marker, name, index: self._write(call, marker, name, index, grown))
        self._wake(grown)

    def _wake(self, grown: Iterable[Partition]) -> None:
        for partition in grown:
            self._appended(partition)

    def _write(
        self,
        call: Call[WriteTxnMarkersRequest],
        marker: WritableTxnMarker,
        name: str,
        index: int,
        grown: list[Partition],
    ) -> int:
        partition = self._topics.partition(name, index)
        if partition is None:
            return UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != call.node_id:
            return NOT_LEADER_OR_FOLLOWER
        code = self._markers.write_one(
            partition,
            EndTransactionMarker(
                Producer(marker.producer_id, marker.producer_epoch),
                marker.coordinator_epoch,
                marker.transaction_result,
            ),
        )
        if code == NONE:
            grown.append(partition)
        return code

    def refuse(self, call: Call[WriteTxnMarkersRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        _answer(call, lambda marker, name, index: code)


def _answer(
    call: Call[WriteTxnMarkersRequest], code_of: Callable[[WritableTxnMarker, str, int], int]
) -> None:
    call.answer(
        WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=code_of(marker, topic.name, index),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in call.message.markers
            ]
        )
    )
