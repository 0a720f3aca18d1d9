"""ConsumerGroupDescribe, key 69 (KIP-848)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import CONSUMER_GROUP_DESCRIBE
from fastprod.protocol.messages.metadata import UNKNOWN_OPERATIONS
from fastprod.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    field,
    message,
)


@message
class ConsumerGroupDescribeRequest:
    """Which groups to tell of."""

    group_ids: list[str] = field(Array(STRING))
    include_authorized_operations: bool = field(BOOL)


@message
class NamedTopicPartitions:
    """Partitions of one topic, with its name."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


@message
class DescribedAssignment:
    """Partitions of a member."""

    topic_partitions: list[NamedTopicPartitions] = field(Array(NamedTopicPartitions))


@message
class DescribedMember:
    """One member, what it has, and what it is to have."""

    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    rack_id: str | None = field(STRING, nullable="0+", default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(Array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable="0+", default=None)
    assignment: DescribedAssignment = field(DescribedAssignment)
    target_assignment: DescribedAssignment = field(DescribedAssignment)
    member_type: int = field(INT8, "1+", default=-1)


@message
class DescribedConsumerGroup:
    """One group, or why there is nothing to tell of it."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[DescribedMember] = field(Array(DescribedMember))
    authorized_operations: int = field(INT32, default=UNKNOWN_OPERATIONS)


@message
class ConsumerGroupDescribeResponse:
    """The groups that were asked for."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedConsumerGroup] = field(Array(DescribedConsumerGroup))


API = Api(
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    versions=(0, 1),
    flexible_from=0,
)
