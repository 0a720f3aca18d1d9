"""StoredRecord: what a test sees of a record."""

from __future__ import annotations

from fastprod._core.records.record_reader import read_batches
from fastprod.broker.stored_record import StoredRecord
from support.oracle.record_batch import encode_batch


def test_a_record_is_told_with_its_partition() -> None:
    batch = encode_batch([(7, b"k", b"v")])
    (record,) = [each for found in read_batches(batch) for each in found.records()]
    assert StoredRecord.of(3, record) == StoredRecord(3, 0, 7, b"k", b"v", ())
