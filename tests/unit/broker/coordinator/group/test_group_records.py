"""What __consumer_offsets holds, byte for byte (B-E2)."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.group.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetAndMetadata,
    OffsetCommitKey,
    StoredMember,
    group_entry,
    offset_entries,
    offset_entry,
    read_group,
    read_key,
    read_offset,
)
from fastprod.protocol.schema import SchemaError

COMMITTED = OffsetAndMetadata(42, 7, "note", 1_700_000_000_000)
GENERATION = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="a",
    current_state_timestamp=5,
    members=[
        StoredMember(
            member_id="a",
            group_instance_id="i",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=b"topics",
            assignment=b"partitions",
        )
    ],
)


def test_an_offset_is_written_as_kafka_does() -> None:
    """Key of version 1, value of version 3."""
    key, value = offset_entry("g", ("t", 2), COMMITTED)
    assert key == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\2"
    assert value == (
        b"\0\3"
        + (42).to_bytes(8, "big")
        + (7).to_bytes(4, "big")
        + b"\0\4note"
        + (1_700_000_000_000).to_bytes(8, "big")
    )
    assert read_key(key) == OffsetCommitKey(group="g", topic="t", partition=2)
    assert read_offset(value) == COMMITTED


def test_an_offset_that_expires_says_when() -> None:
    """Version 1, which has no leader epoch."""
    expiring = COMMITTED._replace(expire_timestamp_ms=99, leader_epoch=-1)
    value = offset_entry("g", ("t", 2), expiring).value
    assert value is not None
    assert value[:2] == b"\0\1"
    assert read_offset(value) == expiring


def test_a_generation_is_read_as_it_was_written() -> None:
    key, value = group_entry("g", GENERATION)
    assert key == b"\0\2\0\1g"
    assert value is not None
    assert value[:2] == b"\0\3"
    assert read_key(key) == GroupMetadataKey(group="g")
    assert read_group(value) == GENERATION


def test_without_a_value_it_is_an_end() -> None:
    assert offset_entry("g", ("t", 2), None).value is None
    assert group_entry("g", None).value is None


def test_each_partition_has_a_record() -> None:
    places = {("t", 0): COMMITTED, ("t", 1): COMMITTED}
    assert [read_key(each.key) for each in offset_entries("g", places)] == [
        OffsetCommitKey(group="g", topic="t", partition=index) for index in (0, 1)
    ]


def test_keys_of_newer_groups_are_passed_over() -> None:
    """KIP-848: versions from 3 on."""
    assert read_key(b"\0\3\0\1g") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1\0\1g", b"\0\2\0\5g"])
def test_a_damaged_key_is_known_as_such(key: bytes) -> None:
    with pytest.raises(SchemaError):
        read_key(key)


def test_a_newer_value_with_tags_is_read() -> None:
    """Version 4 of Kafka 4.x is flexible; its tags are skipped."""
    value = (
        b"\0\4" + (42).to_bytes(8, "big") + (7).to_bytes(4, "big") + b"\5note" + bytes(8) + b"\0"
    )
    assert read_offset(value) == OffsetAndMetadata(42, 7, "note", 0)
