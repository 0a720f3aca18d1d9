"""Splitting a batch that the broker found too large (contract P-D.9, KIP-126).

P-L.57-59 and P-L.73 as far as the split alone can show them.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from fastprod._core.testing import codec_doors
from fastprod._core.testing.records_doors import BatchForTest
from fastprod._core.testing.request_doors import SplitsForTest
from support.oracle import record_batch as oracle

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LEVELS = [0, -1, 0, 9, 3]
TIME = 1_700_000_000_000
HEADER = 61
MAX = 2**31 - 1
RECORDS = [
    oracle.Record(
        TIME + i * 37 % 100 - 50,
        b"key-%d" % i if i % 3 else None,
        b"value-%d" % i * (i % 11) if i % 5 else None,
        (("trace", b"%d" % i), ("none", None)) if i % 4 == 0 else (),
    )
    for i in range(100)
]


def batch_of(records: Sequence[oracle.AnyRecord], codec: int = 0) -> BatchForTest:
    batch = BatchForTest(codec, LEVELS[codec], (1000,))
    for each in records:
        timestamp, key, value, headers = oracle.Record(*each)
        batch.append(timestamp, key, value, oracle.encode_headers(headers) if headers else None)
    batch.seal()
    return batch


def decoded(data: bytes) -> oracle.Batch:
    return oracle.decode_batch(
        data, decompress=lambda part: codec_doors.decompress_for_test(CODECS[data[22] & 7], part)
    )


def children(splits: SplitsForTest) -> list[oracle.Batch]:
    return [decoded(flight["data"]) for flight in splits.flights()]


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_children_hold_the_records_in_order(codec: int) -> None:
    """P-D.9.2, P-L.73: keys, values, headers, timestamps and codec; offsets from 0."""
    splits = SplitsForTest(batch_of(RECORDS, codec), 1000)
    count = splits.split()
    made = children(splits)
    assert count == len(made) > 2
    assert [record for child in made for record in child.records] == RECORDS
    for child in made:
        assert child.codec == codec
        assert child.base_offset == 0
        assert child.offsets == list(range(len(child.records)))
        assert child.base_timestamp == child.records[0].timestamp
        assert child.max_timestamp == max(record.timestamp for record in child.records)


@pytest.mark.parametrize("target", [200, 500, 1000, 2500])
def test_children_are_as_large_as_the_batch_size_allows(target: int) -> None:
    """P-D.9.2."""
    parts = [oracle.Record(TIME, None, b"v" * size) for size in (10, 150, 90, 20, 60) * 8]
    splits = SplitsForTest(batch_of(parts), target)
    splits.split()
    made = children(splits)
    sizes = [len(flight["data"]) for flight in splits.flights()]
    assert all(
        size <= target or len(child.records) == 1 for size, child in zip(sizes, made, strict=True)
    )
    for size, child, following in zip(sizes[:-1], made[:-1], made[1:], strict=True):
        record = oracle.encode_record(following.records[0], len(child.records), TIME)
        assert size + len(record) > target


def test_a_child_holds_at_least_one_record() -> None:
    """P-D.9.2: a record alone may be larger than batch.size."""
    records = [(TIME, None, b"v" * size) for size in (5000, 10, 6000, 7000)]
    splits = SplitsForTest(batch_of(records), 100)
    assert splits.split() == 4
    assert [child.records[0].value for child in children(splits)] == [
        value for _, _, value in records
    ]


@pytest.mark.parametrize("sequence", [0, 41, MAX - 60, MAX])
def test_children_take_the_parents_sequences_across_the_wrap(sequence: int) -> None:
    """P-D.9.3, P-F.5.11."""
    splits = SplitsForTest(batch_of(RECORDS), 1000, sequence=sequence)
    splits.split()
    at = sequence
    for child, flight in zip(children(splits), splits.flights(), strict=True):
        assert (child.producer_id, child.producer_epoch) == (4000, 7)
        assert child.base_sequence == flight["result_sequence"] == at
        at = (at + len(child.records)) % 2**31


def test_children_without_idempotence_have_no_sequence() -> None:
    splits = SplitsForTest(batch_of(RECORDS), 1000)
    splits.split()
    for child in children(splits):
        assert (child.producer_id, child.producer_epoch, child.base_sequence) == (-1, -1, -1)


def test_children_are_as_old_as_their_parent_and_were_never_sent() -> None:
    """P-D.9.2, P-D.9.4: the delivery timeout goes on, retries and backoff start at none."""
    splits = SplitsForTest(batch_of(RECORDS), 1000, created_ns=12345)
    splits.split()
    for flight in splits.flights():
        assert (flight["created_ns"], flight["last_attempt_ns"]) == (12345, 12345)
        assert flight["attempts"] == 0
        assert flight["was_split"]
        assert flight["is_closed"]


def test_children_live_outside_the_pool() -> None:
    """P-D.3.10, P-L.58."""
    splits = SplitsForTest(batch_of(RECORDS), 1000)
    free = splits.counters["pool_free_bytes"]
    splits.split()
    assert splits.counters["pool_free_bytes"] == free
    assert splits.counters["heap_bytes"] > 0


def test_futures_find_their_record_in_the_children() -> None:
    """P-D.9.5, P-D.9.6: also in the children of children; the parent leaves the list for them."""
    splits = SplitsForTest(batch_of(RECORDS), 2000)
    assert splits.counters["incomplete"] == 1
    first = splits.split()
    assert splits.counters["incomplete"] == first
    second = splits.split(1)
    assert splits.counters["incomplete"] == first - 1 + second
    made = children(splits)
    for index, record in enumerate(RECORDS):
        place, at = splits.place_of(index)
        assert made[place].records[at] == record


def test_a_child_that_is_too_large_again_is_halved() -> None:
    """P-D.9.7, KAFKA-8350: also below batch.size, down to single records, and no further."""
    records = [oracle.Record(TIME, None, b"v" * 40) for _ in range(64)]
    splits = SplitsForTest(batch_of(records), 1 << 20)
    rounds = 0
    while any(len(child.records) > 1 for child in children(splits)):
        for place in reversed(range(len(splits.flights()))):
            size = splits.flights()[place]["plain_bytes"]
            if len(children(splits)[place].records) > 1:
                assert splits.split(place) >= 2
                largest = HEADER + len(oracle.encode_record(records[0], 0, TIME))
                for flight in splits.flights()[place : place + 2]:
                    assert flight["plain_bytes"] <= max(size // 2, largest)
        rounds += 1
        assert rounds <= 12
    assert [record for child in children(splits) for record in child.records] == records


def test_the_largest_record_bounds_the_halves() -> None:
    """P-D.9.7: target = max(largest record, half)."""
    sizes = (10, 10, 5000, 10, 10)
    splits = SplitsForTest(batch_of([(TIME, None, b"v" * size) for size in sizes]), 1 << 20)
    assert splits.split() == 3
    lengths = [len(record.value or b"") for child in children(splits) for record in child.records]
    assert lengths == list(sizes)
    assert [len(child.records) for child in children(splits)] == [2, 1, 2]


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_a_compressed_batch_far_below_batch_size_still_comes_apart(codec: int) -> None:
    """P-D.9.7: what counts is the plain size; the broker saw the compressed one."""
    parent = batch_of([(TIME, None, b"v" * 900) for _ in range(50)], codec)
    splits = SplitsForTest(parent, 16384)
    count = splits.split()
    assert count == 3
    assert all(flight["plain_bytes"] <= 16384 for flight in splits.flights())
    assert splits.split(0) in (2, 3)


def test_deltas_may_grow_under_a_new_base_timestamp() -> None:
    """The first record of a child sets the base: what was near the old one is far from it."""
    times = [0, 2**62, 5, 2**62 + 1, 6, 2**62 + 2] * 20
    records = [oracle.Record(time, b"k", None, ()) for time in times]
    splits = SplitsForTest(batch_of(records), 150)
    splits.split()
    made = children(splits)
    assert [record for child in made for record in child.records] == records
    assert all(len(flight["data"]) <= 150 for flight in splits.flights())


def test_random_bytes_survive_every_codec() -> None:
    chance = random.Random(9)
    records = [
        oracle.Record(TIME, chance.randbytes(30), chance.randbytes(chance.randrange(3000)))
        for _ in range(60)
    ]
    for codec in range(5):
        splits = SplitsForTest(batch_of(records, codec), 8000)
        splits.split()
        assert [record for child in children(splits) for record in child.records] == records


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps RLIMIT_AS")
def test_without_memory_nothing_changes() -> None:
    """The parent stays in flight and on the list; nobody waits for a child that never was."""
    program = """
import resource
from pathlib import Path
from fastprod._core.testing.records_doors import BatchForTest
from fastprod._core.testing.request_doors import SplitsForTest

MIB = 1 << 20
parent = BatchForTest(slab_bytes=(48 * MIB,))
for _ in range(4):
    parent.append(0, None, bytes(10 * MIB))
parent.seal()
splits = SplitsForTest(parent, 15 * MIB, sequence=5)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
for spare in (20, 45, 65, 80):     # the plain copy, then one child more each time
    resource.setrlimit(resource.RLIMIT_AS, (used + spare * MIB, hard))
    try:
        splits.split()
        raise SystemExit(f"{spare} MiB were enough")
    except MemoryError:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    assert splits.counters["incomplete"] == 1, splits.counters
    assert splits.counters["heap_bytes"] == 0, splits.counters
    assert [each["was_split"] for each in splits.flights()] == [False]
assert splits.split() == 4
print("unchanged")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr) == ("unchanged\n", "")
