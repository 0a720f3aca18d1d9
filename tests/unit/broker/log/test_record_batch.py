"""Batches that a coordinator writes are those that others read (B-C2)."""

from __future__ import annotations

import pytest

from fastprod._core.log.batch_validator import VALIDATE_FULL, validate
from fastprod.broker.log.record_batch import LogEntry, encode_batch, split
from support.oracle.record_batch import Record, decode_batch
from support.oracle.record_batch import encode_batch as oracle_batch

ENTRIES = [
    LogEntry(b"key", b"value"),
    LogEntry(b"gone", None),
    LogEntry(b"", b""),
    LogEntry(b"k" * 300, b"v" * 70_000),
]


def test_a_batch_is_that_of_the_oracle() -> None:
    batch = bytes(encode_batch(ENTRIES, 1_700_000_000_123))
    wanted = oracle_batch([(1_700_000_000_123, each.key, each.value) for each in ENTRIES])
    assert batch == wanted
    decoded = decode_batch(batch)
    assert decoded.records == [Record(1_700_000_000_123, *each, ()) for each in ENTRIES]


def test_a_log_takes_it() -> None:
    batch = encode_batch(ENTRIES, 1_700_000_000_123)
    info = validate(batch, VALIDATE_FULL, -1, 1 << 20, key_required=True)
    assert (info.record_count, info.producer_id, info.last_offset_delta) == (4, -1, 3)


@pytest.mark.parametrize(
    ("most_bytes", "sizes"), [(1 << 20, [4]), (1000, [3, 1]), (1, [1, 1, 1, 1])]
)
def test_entries_are_cut_in_order(most_bytes: int, sizes: list[int]) -> None:
    parts = list(split(ENTRIES, most_bytes))
    assert [len(part) for part in parts] == sizes
    assert [each for part in parts for each in part] == ENTRIES
    assert list(split([], most_bytes)) == []
