"""TxnOffsetCommit, key 28."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import TXN_OFFSET_COMMIT
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, Array, field, message


@message
class TxnOffsetCommitRequestPartition:
    """How far the group has read one partition."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, "2+", default=-1)
    committed_metadata: str | None = field(STRING, nullable="0+")


@message
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = field(
        Array(TxnOffsetCommitRequestPartition)
    )


@message
class TxnOffsetCommitRequest:
    """A group's offsets, which count once the transaction is committed."""

    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id: int = field(INT32, "3+", default=-1)
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic))


@message
class TxnOffsetCommitResponsePartition:
    """Whether the offset of one partition was taken."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class TxnOffsetCommitResponseTopic:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = field(
        Array(TxnOffsetCommitResponsePartition)
    )


@message
class TxnOffsetCommitResponse:
    """Whether the offsets were taken."""

    throttle_time_ms: int = field(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic))


API = Api(
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    versions=(0, 5),
    flexible_from=3,
)
