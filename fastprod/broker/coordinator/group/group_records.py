"""What __consumer_offsets holds: offsets and groups, in the formats of Apache Kafka.

Source: OffsetCommitKey, OffsetCommitValue, GroupMetadataKey and GroupMetadataValue of Kafka 4.x;
`kafka-dump-log --offsets-decoder` reads them. A key or a value begins with its version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fastprod.broker.log.record_batch import LogEntry
from fastprod.protocol.schema import (
    BYTES,
    INT32,
    INT64,
    STRING,
    Array,
    Schema,
    SchemaError,
    field,
    message,
)

_VERSION: Final = struct.Struct(">h")
_OFFSET_KEY_VERSION, _GROUP_KEY_VERSION = 1, 2
_VALUE_VERSION: Final = 3
# The one version of an offset that says when it expires.
_EXPIRING_VALUE_VERSION: Final = 1
# From this one on values have tagged fields; those that are not known here are skipped.
_FLEXIBLE_FROM: Final = 4


class OffsetAndMetadata(NamedTuple):
    """How far a group has read a partition.

    Attributes:
        offset: of the next record to read.
        leader_epoch: of the last one that was read; -1: the client did not say.
        metadata: what the client noted with it.
        commit_timestamp_ms: when, in milliseconds since 1970.
        expire_timestamp_ms: until when; -1: as long as the group's offsets are kept.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1

    def is_expired(self, since_ms: int, now_ms: int, retention_ms: int) -> bool:
        """Whether it has been kept long enough, if nobody needs it since then (KIP-211)."""
        if self.expire_timestamp_ms >= 0:
            return now_ms >= self.expire_timestamp_ms
        return now_ms - since_ms >= retention_ms


TopicPartition = tuple[str, int]
"""Name of a topic, number of a partition."""


@message
class OffsetCommitKey:
    """Of which partition a group has read something."""

    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


@message
class OffsetCommitValue:
    """How far."""

    offset: int = field(INT64)
    leader_epoch: int = field(INT32, "3+", default=-1)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int = field(INT64, "1", default=-1)


@message
class GroupMetadataKey:
    """A group."""

    group: str = field(STRING)


@message
class StoredMember:
    """A member of a generation, with what it could read and what it was given."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int = field(INT32, "1+", default=-1)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


@message
class GroupMetadataValue:
    """The last generation of a group that is complete, or that has no member any more."""

    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable="0+")
    leader: str | None = field(STRING, nullable="0+")
    current_state_timestamp: int = field(INT64, "2+", default=-1)
    members: list[StoredMember] = field(Array(StoredMember))


_OFFSET_KEY: Final = Schema(OffsetCommitKey, None)
_OFFSET_VALUE: Final = Schema(OffsetCommitValue, _FLEXIBLE_FROM)
_GROUP_KEY: Final = Schema(GroupMetadataKey, None)
_GROUP_VALUE: Final = Schema(GroupMetadataValue, _FLEXIBLE_FROM)


def offset_entry(
    group_id: str, place: TopicPartition, committed: OffsetAndMetadata | None
) -> LogEntry:
    """The record of an offset, or of its end (None).

    Raises:
        SchemaError: a text is too long.
    """
    key = OffsetCommitKey(group=group_id, topic=place[0], partition=place[1])
    key_bytes = _written(_OFFSET_KEY, _OFFSET_KEY_VERSION, key)
    if committed is None:
        return LogEntry(key_bytes, None)
    expires = committed.expire_timestamp_ms != -1
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    version = _EXPIRING_VALUE_VERSION if expires else _VALUE_VERSION
    return LogEntry(key_bytes, _written(_OFFSET_VALUE, version, value))


def offset_entries(
    group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[LogEntry]:
    """The records of a group's offsets."""
    return [offset_entry(group_id, place, each) for place, each in offsets.items()]


def group_entry(group_id: str, value: GroupMetadataValue | None) -> LogEntry:
    """The record of a group, or of its end (None).

    Raises:
        SchemaError: a text is too long.
    """
    key_bytes = _written(_GROUP_KEY, _GROUP_KEY_VERSION, GroupMetadataKey(group=group_id))
    if value is None:
        return LogEntry(key_bytes, None)
    return LogEntry(key_bytes, _written(_GROUP_VALUE, _VALUE_VERSION, value))


def read_key(key: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """What a record is about; None: something that is not known here, as of newer groups.

    Raises:
        SchemaError: it is damaged.
    """
    version = _version(key)
    if version in (0, _OFFSET_KEY_VERSION):
        return _OFFSET_KEY.decode(version, key, _VERSION.size)
    if version == _GROUP_KEY_VERSION:
        return _GROUP_KEY.decode(version, key, _VERSION.size)
    return None


def read_offset(value: bytes) -> OffsetAndMetadata:
    """How far a group has read.

    Raises:
        SchemaError: it is damaged.
    """
    found = _OFFSET_VALUE.decode(_version(value), value, _VERSION.size)
    return OffsetAndMetadata(
        found.offset,
        found.leader_epoch,
        found.metadata,
        found.commit_timestamp,
        found.expire_timestamp,
    )


def read_group(value: bytes) -> GroupMetadataValue:
    """A generation of a group.

    Raises:
        SchemaError: it is damaged.
    """
    return _GROUP_VALUE.decode(_version(value), value, _VERSION.size)


def _written(schema: Schema[Any], version: int, value: Any) -> bytes:
    return b"".join(schema.encode(version, value, _VERSION.pack(version)))


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise SchemaError(f"{len(data)} bytes, too few for a version")
    found: int = _VERSION.unpack_from(data)[0]
    return found
