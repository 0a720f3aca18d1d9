"""AlterPartitionReassignments, key 45 (KIP-455, KIP-860)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ALTER_PARTITION_REASSIGNMENTS
from fastprod.protocol.schema import BOOL, INT16, INT32, STRING, Array, field, message


@message
class ReassignablePartition:
    """The nodes that a partition is to be on; None: a reassignment is cancelled."""

    partition_index: int = field(INT32)
    replicas: list[int] | None = field(Array(INT32), nullable="0+", default=None)


@message
class ReassignableTopic:
    """Partitions of a topic."""

    name: str = field(STRING)
    partitions: list[ReassignablePartition] = field(Array(ReassignablePartition))


@message
class AlterPartitionReassignmentsRequest:
    """Partitions that are to come to other nodes."""

    timeout_ms: int = field(INT32, default=60000)
    allow_replication_factor_change: bool = field(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = field(Array(ReassignableTopic))


@message
class ReassignablePartitionResponse:
    """Whether a reassignment has begun, or was cancelled."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


@message
class ReassignableTopicResponse:
    """Partitions of a topic."""

    name: str = field(STRING)
    partitions: list[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse))


@message
class AlterPartitionReassignmentsResponse:
    """What has begun; nothing of it has to have ended."""

    throttle_time_ms: int = field(INT32)
    allow_replication_factor_change: bool = field(BOOL, "1+", default=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    responses: list[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse))


API = Api(
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    versions=(0, 1),
    flexible_from=0,
)
