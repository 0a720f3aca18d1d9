"""ElectLeaders: the preferred replica leads, or one that is not in sync (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import UNAUTHORIZED, Call
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    ELECTION_NOT_NEEDED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.replica.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

_PREFERRED, _UNCLEAN = 0, 1


class ElectLeadersApi:
    """Handles ElectLeaders, on any node. Any thread.

    Args:
        cluster: elects.
        moved: called with each partition that has another leader, without a lock.
    """

    def __init__(self, cluster: Cluster, moved: Callable[[Partition], object]) -> None:
        self._cluster = cluster
        self._moved = moved

    def handle(self, call: Call[ElectLeadersRequest]) -> None:
        """Elect one leader after the other, and answer."""
        message = call.message
        if not call.allows_cluster(Operation.ALTER):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, UNAUTHORIZED)
            return
        if message.election_type not in (_PREFERRED, _UNCLEAN):
            self.refuse(call, INVALID_REQUEST, f"there is no election {message.election_type}")
            return
        asked = message.topic_partitions
        is_unclean = message.election_type == _UNCLEAN
        results = []
        for topic in self._all() if asked is None else asked:
            found = [
                self._elect(topic.topic, index, is_unclean)
                for index in dict.fromkeys(topic.partitions)
            ]
            # Who asks for all wants to hear what has changed.
            told = [each for each in found if asked or each.error_code != ELECTION_NOT_NEEDED]
            if told:
                results.append(ReplicaElectionResult(topic=topic.topic, partition_result=told))
        call.answer(ElectLeadersResponse(error_code=NONE, replica_election_results=results))

    def refuse(self, call: Call[ElectLeadersRequest], code: int, text: str | None) -> None:
        """Answer the whole, and every partition, with `code`."""
        results = [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=text)
                    for index in dict.fromkeys(topic.partitions)
                ],
            )
            for topic in call.message.topic_partitions or ()
        ]
        call.answer(ElectLeadersResponse(error_code=code, replica_election_results=results))

    def _all(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic=topic.name, partitions=list(range(len(topic.partitions))))
            for topic in self._cluster.topics.all()
        ]

    def _elect(self, topic: str, index: int, is_unclean: bool) -> PartitionResult:
        partition = self._cluster.topics.partition(topic, index)
        text: str | None = None
        if partition is None:
            code, text = UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}"
        else:
            try:
                code = self._cluster.elect_leader(partition, is_unclean)
            except Exception as error:
                code, text = item_error(error)
            if code == NONE:
                self._moved(partition)
        return PartitionResult(partition_id=index, error_code=code, error_message=text)
