"""ConsumerGroupHeartbeat, key 68 (KIP-848)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from fastprod.protocol.schema import INT16, INT32, STRING, UUID, Array, field, message


@message
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))


@message
class ConsumerGroupHeartbeatRequest:
    """A member joins, lives or leaves; null: as it was the last time."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    subscribed_topic_names: list[str] | None = field(Array(STRING), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(STRING, "1+", nullable="1+", default=None)
    server_assignor: str | None = field(STRING, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(
        Array(TopicPartitions), nullable="0+", default=None
    )


@message
class Assignment:
    """What a member reads."""

    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


@message
class ConsumerGroupHeartbeatResponse:
    """The member's epoch, and what it is to read; null: as it was told the last time."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    member_id: str | None = field(STRING, nullable="0+", default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


API = Api(
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    versions=(0, 1),
    flexible_from=0,
)
