"""What is left of a batch (B-C4.6)."""

from __future__ import annotations

import pytest

from fastprod._core.records.record_reader import RecordBatch, read_batches
from fastprod.broker.log.cleaning.batch_filter import delete_horizon_ms, parts_of, rebuilt
from support.broker.log_batches import CODECS, TIME, encoded

RECORDS = [
    (TIME, b"a", b"1"),
    (TIME - 50, b"b", None),
    (TIME + 70_000, None, b""),
    (TIME + 5, b"", b"x" * 300),
]


def read(data: bytes) -> RecordBatch:
    (found,) = read_batches(data, verify=True)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_stay_are_as_they_were(codec: str) -> None:
    """B-C4.6: whatever they were compressed with."""
    before = read(bytes(encoded(RECORDS, codec, base_offset=100, partition_leader_epoch=3)))
    parts = parts_of(before)
    assert [(each.key, each.has_value) for each in parts] == [
        (b"a", True),
        (b"b", False),
        (None, True),
        (b"", True),
    ]
    after = read(rebuilt(before, [parts[1], parts[3]]))
    records = before.records()
    assert after.records() == [records[1], records[3]]
    assert (after.base_offset, after.next_offset) == (100, 104)
    assert (after.partition_leader_epoch, after.max_timestamp) == (3, TIME + 5)
    assert after.codec == 0


def test_a_horizon_changes_no_timestamp() -> None:
    """KAFKA-8522: it takes the place of the base timestamp."""
    before = read(bytes(encoded(RECORDS)))
    assert delete_horizon_ms(before) is None
    after = read(rebuilt(before, parts_of(before), TIME + 123_456))
    assert delete_horizon_ms(after) == TIME + 123_456
    assert after.records() == before.records()
    again = read(rebuilt(after, parts_of(after)[:1]))
    assert delete_horizon_ms(again) == TIME + 123_456
    assert again.records() == before.records()[:1]


def test_a_header_alone_tells_of_its_producer() -> None:
    """B-C6.2"""
    fields = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "base_offset": 40}
    before = read(bytes(encoded(RECORDS, "gzip", transactional=True, **fields)))
    after = read(rebuilt(before, []))
    assert (after.record_count, after.records(), after.size_bytes) == (0, [], 61)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (5, 2, 9)
    assert (after.base_offset, after.next_offset, after.is_transactional) == (40, 44, True)
    assert after.max_timestamp == before.max_timestamp
