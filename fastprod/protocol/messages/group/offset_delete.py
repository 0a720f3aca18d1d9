"""OffsetDelete, key 47."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import OFFSET_DELETE
from fastprod.protocol.schema import INT16, INT32, STRING, Array, field, message


@message
class OffsetDeleteRequestPartition:
    """A partition whose offset is to go."""

    partition_index: int = field(INT32)


@message
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteRequestPartition] = field(Array(OffsetDeleteRequestPartition))


@message
class OffsetDeleteRequest:
    """Offsets that a group is to forget."""

    group_id: str = field(STRING)
    topics: list[OffsetDeleteRequestTopic] = field(Array(OffsetDeleteRequestTopic))


@message
class OffsetDeleteResponsePartition:
    """Whether the offset of one partition is gone."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class OffsetDeleteResponseTopic:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteResponsePartition] = field(Array(OffsetDeleteResponsePartition))


@message
class OffsetDeleteResponse:
    """Whether the offsets are gone."""

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetDeleteResponseTopic] = field(Array(OffsetDeleteResponseTopic))


API = Api(
    OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse, versions=(0, 0), flexible_from=None
)
