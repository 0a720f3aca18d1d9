"""ListOffsets: the offset for a timestamp (B-D3)."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.replica_manager import FetchWant, OffsetResult, ReplicaManager
from fastprod.error_codes import INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class ListOffsetsApi:
    """Handles ListOffsets. Any thread.

    Args:
        replica_manager: looks offsets up.
    """

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._replicas = replica_manager

    def handle(self, call: Call[ListOffsetsRequest]) -> None:
        """Answer every partition; one that is named twice is refused."""
        seen: set[tuple[str, int]] = set()
        twice: set[tuple[str, int]] = set()
        for topic in call.message.topics:
            for each in topic.partitions:
                place = (topic.name, each.partition_index)
                (twice if place in seen else seen).add(place)

        names = (topic.name for topic in call.message.topics)
        denied = {name for name in names if not call.allows_topic(Operation.DESCRIBE, name)}

        def find(topic: str, each: ListOffsetsPartition) -> OffsetResult:
            if topic in denied:
                return OffsetResult(TOPIC_AUTHORIZATION_FAILED)
            if (topic, each.partition_index) in twice:
                return OffsetResult(INVALID_REQUEST)
            return self._find(call, topic, each)

        _answer(call, find)

    def refuse(self, call: Call[ListOffsetsRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        _answer(call, lambda topic, each: OffsetResult(code))

    def _find(
        self, call: Call[ListOffsetsRequest], topic: str, each: ListOffsetsPartition
    ) -> OffsetResult:
        return self._replicas.list_offset(
            call.node_id,
            FetchWant(topic, each.partition_index, 0, 0, each.current_leader_epoch),
            each.timestamp,
            call.message.isolation_level,
            call.version,
        )


def _answer(
    call: Call[ListOffsetsRequest], find: Callable[[str, ListOffsetsPartition], OffsetResult]
) -> None:
    call.answer(
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        _response(each, find(topic.name, each)) for each in topic.partitions
                    ],
                )
                for topic in call.message.topics
            ]
        )
    )


def _response(each: ListOffsetsPartition, result: OffsetResult) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=each.partition_index,
        error_code=result.error,
        timestamp=result.timestamp,
        offset=result.offset,
        leader_epoch=result.leader_epoch,
    )
