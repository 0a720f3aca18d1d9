"""What is kept of groups that the broker assigns (B-E3)."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.group.consumer import consumer_group_records as records
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from fastprod.protocol.schema import SchemaError

T = bytes(range(16))
MEMBER = ConsumerGroupMember(
    "m",
    5,
    4,
    MemberState.UNREVOKED_PARTITIONS,
    "i",
    None,
    "c",
    "/h",
    1000,
    frozenset({"t"}),
    "",
    "range",
    {T: {1: 3, 0: 5}},
    {T: {2: 4}},
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        # As kafka-dump-log --offsets-decoder and Kafka 4.3 read and write them.
        (
            records.group_record("g", 7, -2),
            "0003 0001 67",
            "0000 00000007 01 00 08 fffffffffffffffe",
        ),
        (
            records.target_record("g", 7, 9),
            "0006 0001 67",
            "0000 00000007 01 00 08 0000000000000009",
        ),
        (
            records.member_record("g", MEMBER),
            "0005 0001 67 0001 6d",
            "0000 02 69 00 02 63 03 2f68 02 02 74 01 000003e8 06 72616e6765 00",
        ),
        (
            records.target_member_record("g", "m", {T: frozenset({1})}),
            "0007 0001 67 0001 6d",
            f"0000 02 {T.hex()} 02 00000001 00 00",
        ),
        (
            records.current_record("g", MEMBER),
            "0008 0001 67 0001 6d",
            f"0000 00000005 00000004 01 02 {T.hex()} 03 00000000 00000001 "
            f"01 00 09 03 00000005 00000003 "
            f"02 {T.hex()} 02 00000002 01 00 05 02 00000004 00",
        ),
        (
            records.regex_record("g", "t.*", ["t"], 3, 4),
            "0010 0001 67 0003 742e2a",
            "0000 02 02 74 0000000000000003 0000000000000004 00",
        ),
    ],
)
def test_records_have_kafkas_bytes(
    record: records.ConsumerGroupRecord, key: str, value: str
) -> None:
    """B-E3"""
    entry = record.entry()
    assert entry.key == bytes.fromhex(key)
    assert entry.value == bytes.fromhex(value)
    assert records.read_record(entry.key, entry.value) == record


def test_tombstones_are_read_again_in_their_order() -> None:
    """B-E3: a member has nothing any more before it is gone."""
    found = [each.entry() for each in records.member_tombstones("g", "m")]
    assert [each.key[1] for each in found] == [8, 7, 5]
    found += [each.entry() for each in records.group_tombstones("g")]
    assert all(each.value is None for each in found)
    assert records.read_record(found[-1].key, None) == records.group_tombstones("g")[-1]
    assert records.regex_tombstone("g", "r").entry().value is None


def test_epochs_that_are_not_written_are_the_members() -> None:
    """KIP-1251: as in records of Kafka 4.2."""
    old = records.CurrentTopicPartitions(topic_id=T, partitions=[1, 2])
    assert records.epochs_of([old], 6) == {T: {1: 6, 2: 6}}


def test_other_records_are_passed_over_and_damaged_ones_refused() -> None:
    """B-E3"""
    assert records.read_record(bytes.fromhex("0001 0001 67"), b"") is None
    assert records.read_record(b"", None) is None
    with pytest.raises(SchemaError):
        records.read_record(bytes.fromhex("0003 0009 67"), None)
