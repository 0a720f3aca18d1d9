"""What __consumer_offsets holds of groups that the broker assigns, in the formats of Apache Kafka.

Source: ConsumerGroupMetadata, ...MemberMetadata, ...TargetAssignmentMetadata,
...TargetAssignmentMember, ...CurrentMemberAssignment and ...RegularExpression, keys and values, of
Kafka 4.3; `kafka-dump-log --offsets-decoder` reads them. Contract B-E3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    Assignment,
    ConsumerGroupMember,
    EpochAssignment,
)
from fastprod.broker.log.record_batch import LogEntry
from fastprod.protocol.schema import (
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    Schema,
    field,
    message,
)

_VERSION: Final = struct.Struct(">h")
_VALUE_VERSION: Final = 0


@message
class GroupKey:
    """A group (record type 3), or its target assignment (6)."""

    group_id: str = field(STRING)


@message
class MemberKey:
    """A member (record type 5), its target assignment (7), its current one (8)."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class RegularExpressionKey:
    """What members want to read (record type 16)."""

    group_id: str = field(STRING)
    regular_expression: str = field(STRING)


@message
class ConsumerGroupMetadataValue:
    """The epoch of a group, and what the topics were like in it (KIP-1101)."""

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, tag=0)


@message
class ConsumerGroupMemberMetadataValue:
    """What a member has said of itself."""

    instance_id: str | None = field(STRING, nullable="0+")
    rack_id: str | None = field(STRING, nullable="0+")
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(Array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable="0+")
    rebalance_timeout_ms: int = field(INT32, default=-1)
    server_assignor: str | None = field(STRING, nullable="0+")


@message
class TargetAssignmentMetadataValue:
    """The epoch of a target assignment, and when it was made (KIP-1263)."""

    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0)


@message
class TargetTopicPartition:
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))


@message
class TargetAssignmentMemberValue:
    """What a member is to read."""

    topic_partitions: list[TargetTopicPartition] = field(Array(TargetTopicPartition))


@message
class CurrentTopicPartitions:
    """Partitions of one topic, and since which epoch the member has each (KIP-1251)."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))
    assignment_epochs: list[int] | None = field(Array(INT32), nullable="0+", default=None, tag=0)


@message
class CurrentMemberAssignmentValue:
    """How far a member has come, and what it has."""

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[CurrentTopicPartitions] = field(Array(CurrentTopicPartitions))
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(
        Array(CurrentTopicPartitions)
    )


@message
class RegularExpressionValue:
    """The topics that match."""

    topics: list[str] = field(Array(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)


class RecordType(NamedTuple):
    """One of Kafka's record types; its number stands before each key.

    Attributes:
        number: Kafka's.
        key: what it is about.
        value: what it says.
    """

    number: int
    key: Schema[Any]
    value: Schema[Any]


def _type(number: int, key: type, value: type) -> RecordType:
    return RecordType(number, Schema(key, None), Schema(value, 0))


GROUP: Final = _type(3, GroupKey, ConsumerGroupMetadataValue)
MEMBER: Final = _type(5, MemberKey, ConsumerGroupMemberMetadataValue)
TARGET: Final = _type(6, GroupKey, TargetAssignmentMetadataValue)
TARGET_MEMBER: Final = _type(7, MemberKey, TargetAssignmentMemberValue)
CURRENT: Final = _type(8, MemberKey, CurrentMemberAssignmentValue)
REGEX: Final = _type(16, RegularExpressionKey, RegularExpressionValue)

_TYPES: Final = {
    each.number: each for each in (GROUP, MEMBER, TARGET, TARGET_MEMBER, CURRENT, REGEX)
}


class ConsumerGroupRecord(NamedTuple):
    """One record: what a group is from now on, in one respect.

    Attributes:
        type: which respect.
        key: of the type's class.
        value: likewise; None: that is no more.
    """

    type: RecordType
    key: Any
    value: Any

    def entry(self) -> LogEntry:
        """As it is written down.

        Raises:
            SchemaError: a text is too long.
        """
        kind, key, value = self
        key_bytes = b"".join(kind.key.encode(0, key, _VERSION.pack(kind.number)))
        if value is None:
            return LogEntry(key_bytes, None)
        head = _VERSION.pack(_VALUE_VERSION)
        return LogEntry(key_bytes, b"".join(kind.value.encode(_VALUE_VERSION, value, head)))


def read_record(key: bytes, value: bytes | None) -> ConsumerGroupRecord | None:
    """A record of a group that the broker assigns; None: it is about something else.

    Raises:
        SchemaError: it is damaged.
    """
    if len(key) < _VERSION.size:
        return None
    kind = _TYPES.get(_VERSION.unpack_from(key)[0])
    if kind is None:
        return None
    decoded = None if value is None else kind.value.decode(_VALUE_VERSION, value, _VERSION.size)
    return ConsumerGroupRecord(kind, kind.key.decode(0, key, _VERSION.size), decoded)


def group_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerGroupRecord:
    """The group's epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupRecord(GROUP, GroupKey(group_id=group_id), value)


def target_record(group_id: str, epoch: int, timestamp_ms: int) -> ConsumerGroupRecord:
    """The epoch of the target assignment."""
    value = TargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return ConsumerGroupRecord(TARGET, GroupKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerGroupMember) -> ConsumerGroupRecord:
    """What a member has said of itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
    )
    return ConsumerGroupRecord(MEMBER, _member_key(group_id, member.member_id), value)


def target_member_record(
    group_id: str, member_id: str, assignment: Assignment
) -> ConsumerGroupRecord:
    """What a member is to read."""
    value = TargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartition(topic_id=topic_id, partitions=sorted(each))
            for topic_id, each in assignment.items()
        ]
    )
    return ConsumerGroupRecord(TARGET_MEMBER, _member_key(group_id, member_id), value)


def current_record(group_id: str, member: ConsumerGroupMember) -> ConsumerGroupRecord:
    """How far a member has come."""
    value = CurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=_written(member.assigned),
        partitions_pending_revocation=_written(member.pending_revocation),
    )
    return ConsumerGroupRecord(CURRENT, _member_key(group_id, member.member_id), value)


def regex_record(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> ConsumerGroupRecord:
    """The topics that match."""
    value = RegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    key = RegularExpressionKey(group_id=group_id, regular_expression=regex)
    return ConsumerGroupRecord(REGEX, key, value)


def regex_tombstone(group_id: str, regex: str) -> ConsumerGroupRecord:
    """Nobody wants to read these any more."""
    key = RegularExpressionKey(group_id=group_id, regular_expression=regex)
    return ConsumerGroupRecord(REGEX, key, None)


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerGroupRecord]:
    """A member is gone; in the order in which that can be read again."""
    key = _member_key(group_id, member_id)
    return [ConsumerGroupRecord(kind, key, None) for kind in (CURRENT, TARGET_MEMBER, MEMBER)]


def group_tombstones(group_id: str) -> list[ConsumerGroupRecord]:
    """A group without members is gone."""
    key = GroupKey(group_id=group_id)
    return [ConsumerGroupRecord(kind, key, None) for kind in (TARGET, GROUP)]


def assignment_of(value: TargetAssignmentMemberValue) -> Assignment:
    """What a member is to read, from its record."""
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}


def epochs_of(partitions: Iterable[CurrentTopicPartitions], epoch: int) -> EpochAssignment:
    """What a member has, from its record; `epoch`, if the record does not say since when."""
    return {
        each.topic_id: dict(
            zip(
                each.partitions,
                each.assignment_epochs or [epoch] * len(each.partitions),
                strict=False,
            )
        )
        for each in partitions
    }


def _member_key(group_id: str, member_id: str) -> MemberKey:
    return MemberKey(group_id=group_id, member_id=member_id)


def _written(partitions: EpochAssignment) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[index] for index in sorted(epochs)],
        )
        for topic_id, epochs in partitions.items()
    ]
