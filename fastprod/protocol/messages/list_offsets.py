"""ListOffsets, key 2."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import LIST_OFFSETS
from fastprod.protocol.schema import INT8, INT16, INT32, INT64, STRING, Array, field, message


@message
class ListOffsetsPartition:
    """A partition and the time whose offset is wanted; -1 latest, -2 earliest, -3 newest record."""

    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, "4+", default=-1)
    timestamp: int = field(INT64)


@message
class ListOffsetsTopic:
    """A topic to look into."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition))


@message
class ListOffsetsRequest:
    """Times to turn into offsets."""

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, "2+")
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic))
    timeout_ms: int = field(INT32, "10+")


@message
class ListOffsetsPartitionResponse:
    """The offset of one partition; -1 if there is none."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, "1+", default=-1)
    offset: int = field(INT64, "1+", default=-1)
    leader_epoch: int = field(INT32, "4+", default=-1)


@message
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse))


@message
class ListOffsetsResponse:
    """The offsets."""

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse))


API = Api(LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, versions=(1, 11), flexible_from=6)
