"""ElectLeaders, key 43 (KIP-183, KIP-460)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ELECT_LEADERS
from fastprod.protocol.schema import INT8, INT16, INT32, STRING, Array, field, message


@message
class TopicPartitions:
    """Partitions of a topic that are to have another leader."""

    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


@message
class ElectLeadersRequest:
    """Elections: 0 the preferred leaders, 1 unclean ones; None: all partitions."""

    election_type: int = field(INT8, "1+", default=0)
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), nullable="0+")
    timeout_ms: int = field(INT32, default=60000)


@message
class PartitionResult:
    """What became of the election of one partition."""

    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


@message
class ReplicaElectionResult:
    """The partitions of one topic."""

    topic: str = field(STRING)
    partition_result: list[PartitionResult] = field(Array(PartitionResult))


@message
class ElectLeadersResponse:
    """What became of the elections."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(Array(ReplicaElectionResult))


API = Api(
    ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse, versions=(0, 2), flexible_from=2
)
