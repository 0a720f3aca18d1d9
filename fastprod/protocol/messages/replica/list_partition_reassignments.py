"""ListPartitionReassignments, key 46 (KIP-455)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import LIST_PARTITION_REASSIGNMENTS
from fastprod.protocol.schema import INT16, INT32, STRING, Array, field, message


@message
class ListPartitionReassignmentsTopics:
    """Partitions of a topic that are asked about."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


@message
class ListPartitionReassignmentsRequest:
    """Partitions that are asked about; None: all."""

    timeout_ms: int = field(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


@message
class OngoingPartitionReassignment:
    """A partition that comes to other nodes."""

    partition_index: int = field(INT32)
    replicas: list[int] = field(Array(INT32))
    adding_replicas: list[int] = field(Array(INT32))
    removing_replicas: list[int] = field(Array(INT32))


@message
class OngoingTopicReassignment:
    """Partitions of a topic."""

    name: str = field(STRING)
    partitions: list[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment))


@message
class ListPartitionReassignmentsResponse:
    """The reassignments that have not ended."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    topics: list[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment))


API = Api(
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    versions=(0, 0),
    flexible_from=0,
)
