"""OffsetCommit, key 8."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import OFFSET_COMMIT
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, UUID, Array, field, message


@message
class OffsetCommitRequestPartition:
    """How far the group has read one partition."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, "6+", default=-1)
    committed_metadata: str | None = field(STRING, nullable="0+")


@message
class OffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str = field(STRING, "0-9")
    topic_id: bytes = field(UUID, "10+")
    partitions: list[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


@message
class OffsetCommitRequest:
    """How far a group has read."""

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, "1+", default=-1)
    member_id: str = field(STRING, "1+")
    group_instance_id: str | None = field(STRING, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(INT64, "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic))


@message
class OffsetCommitResponsePartition:
    """Whether the offset of one partition was taken."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class OffsetCommitResponseTopic:
    """The partitions of one topic."""

    name: str = field(STRING, "0-9")
    topic_id: bytes = field(UUID, "10+")
    partitions: list[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition))


@message
class OffsetCommitResponse:
    """Whether the offsets were taken."""

    throttle_time_ms: int = field(INT32, "3+")
    topics: list[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic))


API = Api(
    OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, versions=(2, 10), flexible_from=8
)
