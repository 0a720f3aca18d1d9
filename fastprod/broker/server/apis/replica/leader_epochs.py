"""OffsetForLeaderEpoch: where the epochs of a log end (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.replica_manager import FetchWant, ReplicaManager
from fastprod.error_codes import NONE, TOPIC_AUTHORIZATION_FAILED
from fastprod.protocol.messages.replica.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class OffsetForLeaderEpochApi:
    """Handles OffsetForLeaderEpoch. Any thread.

    Args:
        replica_manager: finds partitions.
    """

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._replicas = replica_manager

    def handle(self, call: Call[OffsetForLeaderEpochRequest]) -> None:
        """Answer every partition."""
        names = {topic.topic for topic in call.message.topics}
        denied = {name for name in names if not call.allows_topic(Operation.DESCRIBE, name)}
        if denied and call.allows_cluster(Operation.CLUSTER_ACTION):
            # It is a follower's.
            denied = set()

        def find(topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
            if topic in denied:
                return _error(asked, TOPIC_AUTHORIZATION_FAILED)
            return self._find(call.node_id, topic, asked)

        _answer(call, find)

    def refuse(self, call: Call[OffsetForLeaderEpochRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        _answer(call, lambda topic, asked: _error(asked, code))

    def _find(self, node_id: int, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        want = FetchWant(topic, asked.partition, 0, 0, asked.current_leader_epoch)
        code, partition = self._replicas.look(node_id, want)
        if code != NONE or partition is None:
            return _error(asked, code)
        epoch, end_offset = partition.log_at(node_id).end_offset_for_epoch(
            asked.leader_epoch, partition.epoch_at(node_id)
        )
        return EpochEndOffset(
            error_code=NONE,
            partition=asked.partition,
            leader_epoch=epoch,
            end_offset=end_offset,
        )


def _error(asked: OffsetForLeaderPartition, code: int) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=asked.partition)


def _answer(
    call: Call[OffsetForLeaderEpochRequest],
    find: Callable[[str, OffsetForLeaderPartition], EpochEndOffset],
) -> None:
    call.answer(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[find(topic.topic, each) for each in topic.partitions],
                )
                for topic in call.message.topics
            ]
        )
    )
