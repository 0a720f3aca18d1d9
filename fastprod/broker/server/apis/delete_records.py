"""DeleteRecords: logs begin later (B-C4.5)."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.broker.cluster.partition import NotLeader, Partition
from fastprod.broker.cluster.topics import INTERNAL_TOPICS, Topics
from fastprod.broker.log.log_error import OffsetOutOfRange
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.item_errors import item_error
from fastprod.broker.server.replica_manager import ReplicaManager
from fastprod.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
)
from fastprod.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


class DeleteRecordsApi:
    """Handles DeleteRecords. Any thread.

    Followers learn of it by fetching; nobody waits for one that cannot.

    Args:
        replicas: finds partitions.
        topics: knows their settings.
        changed: called with each partition that begins later.
    """

    def __init__(
        self, replicas: ReplicaManager, topics: Topics, changed: Callable[[Partition], object]
    ) -> None:
        self._replicas = replicas
        self._topics = topics
        self._changed = changed

    def handle(self, call: Call[DeleteRecordsRequest]) -> None:
        """Delete what lies before the offsets, and answer with where each log begins."""
        changed: list[Partition] = []
        names = {each.name for each in call.message.topics}
        denied = {each for each in names if not call.allows_topic(Operation.DELETE, each)}

        def delete(topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
            if topic in denied:
                return _error(asked, TOPIC_AUTHORIZATION_FAILED)
            return self._delete(call.node_id, topic, asked, changed)

        _answer(call, delete)
        for partition in changed:
            self._changed(partition)

    def refuse(self, call: Call[DeleteRecordsRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        _answer(call, lambda topic, asked: _error(asked, code))

    def _delete(
        self, node_id: int, name: str, asked: DeleteRecordsPartition, changed: list[Partition]
    ) -> DeleteRecordsPartitionResult:
        if name in INTERNAL_TOPICS:
            return _error(asked, INVALID_TOPIC_EXCEPTION)
        code, partition = self._replicas.find(node_id, name, asked.partition_index)
        topic = self._topics.get(name)
        if code != NONE or partition is None or topic is None:
            return _error(asked, code)
        if "delete" not in topic.config.text("cleanup.policy"):
            return _error(asked, POLICY_VIOLATION)
        try:
            start_offset = partition.delete_records_at(node_id, asked.offset)
        except OffsetOutOfRange:
            return _error(asked, OFFSET_OUT_OF_RANGE)
        except NotLeader:
            return _error(asked, NOT_LEADER_OR_FOLLOWER)
        except Exception as error:
            return _error(asked, item_error(error).code)
        changed.append(partition)
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=start_offset, error_code=NONE
        )


def _error(asked: DeleteRecordsPartition, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=code
    )


def _answer(
    call: Call[DeleteRecordsRequest],
    delete: Callable[[str, DeleteRecordsPartition], DeleteRecordsPartitionResult],
) -> None:
    call.answer(
        DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[delete(topic.name, each) for each in topic.partitions],
                )
                for topic in call.message.topics
            ]
        )
    )
