"""EndTxn and WriteTxnMarkers: how transactions end (B-E4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fastprod.broker.cluster.partition import NotEnoughReplicas, Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.coordinator.transaction.transaction_markers import TransactionMarkers
from fastprod.broker.coordinator.transaction.transaction_metadata import TV_0, TV_2, WrittenMarker
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.delayed_produce import Unreplicated, answer_when_replicated
from fastprod.broker.server.apis.transaction.contents import fenced_code, may_write
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NOT_ENOUGH_REPLICAS,
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

    A marker is answered as a batch with acks=all is: it is refused with fewer replicas in sync than
    `min.insync.replicas`, and those in sync are waited for.

    Args:
        markers: writes them.
        topics: where the partitions are.
        purgatory: told which partitions have grown; where answers wait for replicas.
        timeout_ms: so long, at most; the request has no time-out of its own.
    """

    def __init__(
        self,
        markers: TransactionMarkers,
        topics: Topics,
        purgatory: DelayedOperationPurgatory,
        timeout_ms: int,
    ) -> None:
        self._markers = markers
        self._topics = topics
        self._purgatory = purgatory
        self._timeout_ms = timeout_ms

    def handle(self, call: Call[WriteTxnMarkersRequest]) -> None:
        """Write them, and answer for each partition when its replicas in sync have its marker."""
        if not (
            call.allows_cluster(Operation.ALTER) or call.allows_cluster(Operation.CLUSTER_ACTION)
        ):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        grown: list[Partition] = []
        waiting: list[Unreplicated] = []

        def write(
            marker: WritableTxnMarker, name: str, index: int
        ) -> WritableTxnMarkerPartitionResult:
            code, written = self._write(call.node_id, marker, name, index)
            result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
            if written is not None:
                grown.append(written.partition)
                if written.partition.is_replicated:
                    _, epoch, end_offset = written.at
                    fail = partial(_fail, result)
                    waiting.append(Unreplicated(written.partition, epoch, end_offset, fail))
            return result

        response = _response(call, write)
        try:
            if waiting:
                answer_when_replicated(
                    self._purgatory,
                    call,
                    waiting,
                    self._timeout_ms,
                    lambda: call.answer(response),
                )
            else:
                call.answer(response)
        finally:
            for partition in grown:
                self._purgatory.check_and_complete(partition)

    def _write(
        self, node_id: int, marker: WritableTxnMarker, name: str, index: int
    ) -> tuple[int, WrittenMarker | None]:
        partition = self._topics.partition(name, index)
        if partition is None:
            return UNKNOWN_TOPIC_OR_PARTITION, None
        if partition.leader != node_id:
            return NOT_LEADER_OR_FOLLOWER, None
        try:
            partition.check_isr(node_id)
        except NotEnoughReplicas:
            return NOT_ENOUGH_REPLICAS, None
        producer = Producer(marker.producer_id, marker.producer_epoch)
        return self._markers.write_one(
            partition,
            EndTransactionMarker(
                producer,
                marker.coordinator_epoch,
                marker.transaction_result,
                has_own_epoch=marker.transaction_version >= TV_2,
            ),
        )

    def refuse(self, call: Call[WriteTxnMarkersRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        call.answer(
            _response(
                call,
                lambda marker, name, index: WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=code
                ),
            )
        )


def _fail(result: WritableTxnMarkerPartitionResult, code: int, text: str | None) -> None:
    result.error_code = code


def _response(
    call: Call[WriteTxnMarkersRequest],
    result_of: Callable[[WritableTxnMarker, str, int], WritableTxnMarkerPartitionResult],
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            result_of(marker, topic.name, index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in call.message.markers
        ]
    )
