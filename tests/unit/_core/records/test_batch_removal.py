"""Records taken out of a batch: bytes, slabs and counts."""

from __future__ import annotations

import pytest

from fastprod._core.testing.records_doors import BatchForTest
from support.oracle import record_batch as oracle

KIB = 1024


@pytest.mark.parametrize("slab_bytes", [(1,), (2, 3), (16, 1, 5), (4096,)])
def test_offsets_shrink_with_their_records_wherever_slabs_end(slab_bytes: tuple[int, ...]) -> None:
    """From index 64 on an offset delta has two bytes; 80 records less, and it has one."""
    batch = BatchForTest(slab_bytes=slab_bytes)
    records = [oracle.Record(1_000 + number % 7, b"k", b"%d" % number) for number in range(140)]
    for record in records:
        batch.append(record.timestamp, record.key, record.value)
    batch.remove(range(80))
    batch.seal()
    assert batch.body() == oracle.encode_records(records[80:], base_timestamp=1_000)
    largest = max(len(oracle.encode_record(record, 0, 1_000)) for record in records[80:])
    assert batch.counters["largest_record"] == largest


def test_slabs_that_become_free_go_back_to_the_pool() -> None:
    batch = BatchForTest(pool_bytes=256 * KIB)
    for number in range(10):
        batch.append(1, None, bytes([number]) * 10 * KIB)
    taken = 256 * KIB - batch.counters["free_bytes"]
    batch.remove([*range(4), *range(5, 10)])
    batch.seal()
    assert 256 * KIB - batch.counters["free_bytes"] < taken // 2
    (read,) = oracle.decode_batches(batch.header() + batch.body())
    assert [record.value for record in read.records] == [bytes([4]) * 10 * KIB]
