"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.topics import TopicError, Topics
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import UNAUTHORIZED, Call
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.replica.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from fastprod.protocol.messages.replica.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class AlterPartitionReassignmentsApi:
    """Handles AlterPartitionReassignments, on any node. Any thread.

    Args:
        cluster: its controller has partitions come to other nodes.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handle(self, call: Call[AlterPartitionReassignmentsRequest]) -> None:
        """Begin or cancel one after the other; answers when that is written down."""
        message = call.message
        if not call.allows_cluster(Operation.ALTER):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, UNAUTHORIZED)
            return
        allows = message.allow_replication_factor_change
        responses = []
        for topic in message.topics:
            found = [self._alter(topic.name, each, allows) for each in topic.partitions]
            responses.append(ReassignableTopicResponse(name=topic.name, partitions=found))
        call.answer(
            AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=allows,
                error_code=NONE,
                error_message=None,
                responses=responses,
            )
        )

    def refuse(
        self, call: Call[AlterPartitionReassignmentsRequest], code: int, text: str | None
    ) -> None:
        """Answer the whole, and every partition, with `code`."""
        responses = [
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _response(each.partition_index, code, text) for each in topic.partitions
                ],
            )
            for topic in call.message.topics
        ]
        call.answer(
            AlterPartitionReassignmentsResponse(
                error_code=code, error_message=text, responses=responses
            )
        )

    def _alter(
        self, name: str, asked: ReassignablePartition, allows_other_count: bool
    ) -> ReassignablePartitionResponse:
        code, text = NONE, None
        try:
            self._begin_or_cancel(name, asked, allows_other_count)
        except Exception as error:
            code, text = item_error(error)
        return _response(asked.partition_index, code, text)

    def _begin_or_cancel(
        self, name: str, asked: ReassignablePartition, allows_other_count: bool
    ) -> None:
        topics = self._cluster.topics
        topic = topics.get(name)
        if topic is None:
            raise TopicError(UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        partition = topic.partition(asked.partition_index)
        if partition is None:
            raise TopicError(
                UNKNOWN_TOPIC_OR_PARTITION,
                f"Unable to find partition {name}:{asked.partition_index}.",
            )
        nodes = asked.replicas
        if nodes is None:
            self._cluster.cancel_reassignment(partition)
            return
        self._cluster.reassign(partition, nodes, allows_other_count)


class ListPartitionReassignmentsApi:
    """Handles ListPartitionReassignments, on any node. Any thread.

    Args:
        topics: where the partitions are.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def handle(self, call: Call[ListPartitionReassignmentsRequest]) -> None:
        """Answer with those that have not ended; what there is not is left out."""
        if not call.allows_cluster(Operation.DESCRIBE):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, UNAUTHORIZED)
            return
        asked = call.message.topics
        found = []
        for name, indexes in (
            [(topic.name, range(len(topic.partitions))) for topic in self._topics.all()]
            if asked is None
            else [(topic.name, topic.partition_indexes) for topic in asked]
        ):
            ongoing = [each for index in indexes if (each := self._ongoing(name, index))]
            if ongoing:
                found.append(OngoingTopicReassignment(name=name, partitions=ongoing))
        call.answer(
            ListPartitionReassignmentsResponse(error_code=NONE, error_message=None, topics=found)
        )

    def refuse(
        self, call: Call[ListPartitionReassignmentsRequest], code: int, text: str | None
    ) -> None:
        """Answer with `code`, and with nothing else."""
        call.answer(
            ListPartitionReassignmentsResponse(error_code=code, error_message=text, topics=[])
        )

    def _ongoing(self, name: str, index: int) -> OngoingPartitionReassignment | None:
        partition = self._topics.partition(name, index)
        if partition is None:
            return None
        now = partition.decided()
        if not now.adding and not now.removing:
            return None
        return OngoingPartitionReassignment(
            partition_index=index,
            replicas=now.replicas,
            # Who is to go again before it was there is added no more.
            adding_replicas=[each for each in now.adding if each not in now.removing],
            removing_replicas=list(now.removing),
        )


def _response(index: int, code: int, text: str | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index, error_code=code, error_message=text or None
    )
