"""OffsetForLeaderEpoch, key 23 (KIP-101, KIP-320)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import OFFSET_FOR_LEADER_EPOCH
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, Array, field, message


@message
class OffsetForLeaderPartition:
    """A partition, and the epoch whose end is wanted."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, "2+", default=-1)
    leader_epoch: int = field(INT32)


@message
class OffsetForLeaderTopic:
    """A topic that is asked about."""

    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition))


@message
class OffsetForLeaderEpochRequest:
    """Where do epochs end?"""

    replica_id: int = field(INT32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic))


@message
class EpochEndOffset:
    """The largest epoch up to the one that was asked for, and the offset after it; -1: unknown."""

    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, "1+", default=-1)
    end_offset: int = field(INT64, default=-1)


@message
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field(Array(EpochEndOffset))


@message
class OffsetForLeaderEpochResponse:
    """The ends of epochs."""

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult))


API = Api(
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    versions=(2, 4),
    flexible_from=4,
)
