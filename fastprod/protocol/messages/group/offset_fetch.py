"""OffsetFetch, key 9."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import OFFSET_FETCH
from fastprod.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    field,
    message,
)


@message
class OffsetFetchRequestTopic:
    """Partitions of one topic, up to version 7."""

    name: str = field(STRING, "0-7")
    partition_indexes: list[int] = field(Array(INT32), "0-7")


@message
class OffsetFetchRequestTopics:
    """Partitions of one topic, from version 8 on."""

    name: str = field(STRING, "8-9")
    topic_id: bytes = field(UUID, "10+")
    partition_indexes: list[int] = field(Array(INT32), "8+")


@message
class OffsetFetchRequestGroup:
    """One group; without topics: all that it has committed."""

    group_id: str = field(STRING, "8+")
    member_id: str | None = field(STRING, "9+", nullable="9+", default=None)
    member_epoch: int = field(INT32, "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(
        Array(OffsetFetchRequestTopics), "8+", nullable="8+"
    )


@message
class OffsetFetchRequest:
    """How far has a group read? From version 8 on for many groups."""

    group_id: str = field(STRING, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(
        Array(OffsetFetchRequestTopic), "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(BOOL, "7+")


@message
class OffsetFetchResponsePartition:
    """How far one partition was read, up to version 7."""

    partition_index: int = field(INT32, "0-7")
    committed_offset: int = field(INT64, "0-7")
    committed_leader_epoch: int = field(INT32, "5-7", default=-1)
    metadata: str | None = field(STRING, "0-7", nullable="0-7")
    error_code: int = field(INT16, "0-7")


@message
class OffsetFetchResponseTopic:
    """The partitions of one topic, up to version 7."""

    name: str = field(STRING, "0-7")
    partitions: list[OffsetFetchResponsePartition] = field(
        Array(OffsetFetchResponsePartition), "0-7"
    )


@message
class OffsetFetchResponsePartitions:
    """How far one partition was read, from version 8 on."""

    partition_index: int = field(INT32, "8+")
    committed_offset: int = field(INT64, "8+")
    committed_leader_epoch: int = field(INT32, "8+", default=-1)
    metadata: str | None = field(STRING, "8+", nullable="8+")
    error_code: int = field(INT16, "8+")


@message
class OffsetFetchResponseTopics:
    """The partitions of one topic, from version 8 on."""

    name: str = field(STRING, "8-9")
    topic_id: bytes = field(UUID, "10+")
    partitions: list[OffsetFetchResponsePartitions] = field(
        Array(OffsetFetchResponsePartitions), "8+"
    )


@message
class OffsetFetchResponseGroup:
    """How far one group has read."""

    group_id: str = field(STRING, "8+")
    topics: list[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics), "8+")
    error_code: int = field(INT16, "8+")


@message
class OffsetFetchResponse:
    """How far the groups have read; offset -1: nothing was committed."""

    throttle_time_ms: int = field(INT32, "3+")
    topics: list[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(INT16, "2-7")
    groups: list[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), "8+")


API = Api(OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, versions=(1, 10), flexible_from=6)
