"""Writing batches v2: vectors P-E.8 to P-E.10, slab borders, compression in place, sealing again.

P-L.184 and P-L.185 as far as they speak of writing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import aiokafka.record.default_records as aiokafka_records  # type: ignore[import-untyped]
import kafka.record.default_records as kafka_records
import pytest
from aiokafka.record._crecords import (  # type: ignore[import-untyped]
    default_records as aiokafka_compiled,
)

from fastprod._core.records.record_reader import read_batches
from fastprod._core.testing import codec_doors
from fastprod._core.testing.records_doors import BatchForTest, record_upper_bound_for_test
from support.oracle import record_batch as oracle
from support.records import known_batches

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LEVELS = [0, -1, 0, 9, 3]
TIME = 1_700_000_000_000
KIB = 1024
SMALL = 4 * KIB
BIG = 32 * KIB
HEADER = 61
MANY: list[oracle.Record] = [
    oracle.Record(
        TIME + i * 7 % 50 - 20,
        b"key-%d" % (i % 9) if i % 3 else None,
        b"value-%d" % i * 9 if i % 5 else None,
        (("trace", b"%d" % i), ("none", None)) if i % 4 == 0 else (),
    )
    for i in range(500)
]


def fill(batch: BatchForTest, records: Sequence[oracle.AnyRecord]) -> None:
    for each in records:
        timestamp, key, value, headers = oracle.Record(*each)
        batch.append(timestamp, key, value, oracle.encode_headers(headers) if headers else None)


def built(codec: int = 0, slab_bytes: tuple[int, ...] = (), pool_bytes: int = 0) -> BatchForTest:
    return BatchForTest(codec, LEVELS[codec], slab_bytes, pool_bytes)


def whole(batch: BatchForTest, **state: int) -> bytes:
    return batch.header(**state) + batch.body()  # type: ignore[arg-type]


def decoded(data: bytes) -> oracle.Batch:
    return oracle.decode_batch(
        data, decompress=lambda part: codec_doors.decompress_for_test(CODECS[data[22] & 7], part)
    )


VECTORS = [
    (known_batches.RECORDS_A, known_batches.VECTOR_A, 0, {}),
    (
        known_batches.RECORDS_B,
        known_batches.VECTOR_B,
        0,
        {"producer_id": 4000, "producer_epoch": 7, "base_sequence": 2**31 - 1, "transactional": 1},
    ),
    (known_batches.RECORDS_A, known_batches.VECTOR_C, 3, {}),
]


@pytest.mark.parametrize("slab_bytes", [(), (1,), (2, 3), (7,), (16, 1, 5)])
@pytest.mark.parametrize(("records", "vector", "codec", "state"), VECTORS, ids="ABC")
def test_vectors_of_the_contract_are_written(
    records: list[oracle.AnyRecord],
    vector: bytes,
    codec: int,
    state: dict[str, int],
    slab_bytes: tuple[int, ...],
) -> None:
    """P-E.8, P-E.9, P-E.10."""
    batch = built(codec, slab_bytes, 64 * KIB)
    fill(batch, records)
    batch.seal()
    assert whole(batch, **state) == vector


@pytest.mark.parametrize("first", range(1, 60))
def test_a_border_anywhere_in_a_record_does_not_show(first: int) -> None:
    """Every field of P-E.3 lies across two slabs once, and every field starts a slab once."""
    records: list[oracle.AnyRecord] = [
        (TIME, b"k" * 70, b"v" * 3, (("head", b"x"), ("er", None))),
        (TIME - 5_000_000, None, b"value", ()),
        (TIME + 9, b"", None, ()),
    ]
    expected = oracle.encode_batch(records)
    size = len(expected) - HEADER
    for border in (first, size - first):
        batch = built(slab_bytes=(border, size))
        fill(batch, records)
        batch.seal()
        assert whole(batch) == expected


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_record_larger_than_any_slab_spreads_over_the_chain(codec: int) -> None:
    value = random.Random(1).randbytes(200_000)
    batch = built(codec, pool_bytes=1024 * KIB)
    fill(batch, [(TIME, b"small", b"first"), (TIME, b"key", value), (TIME, None, b"last")])
    batch.seal()
    records = decoded(whole(batch)).records
    assert [record.value for record in records] == [b"first", value, b"last"]


def test_a_slab_filled_to_its_last_byte_is_followed_by_the_next() -> None:
    record = (TIME, None, b"v" * (SMALL - 9))
    size = len(oracle.encode_record(record, 0, TIME))
    assert size == SMALL
    batch = built(pool_bytes=8 * BIG)
    fill(batch, [record])
    assert batch.counters["room"] == 0
    fill(batch, [record, record])
    batch.seal()
    assert whole(batch) == oracle.encode_batch([record] * 3)


def test_counters_follow_the_records() -> None:
    batch = built(pool_bytes=8 * BIG)
    sizes = []
    for index, record in enumerate(MANY[:20]):
        headers = oracle.encode_headers(record.headers) if record.headers else None
        sizes.append(batch.append(record.timestamp, record.key, record.value, headers))
        assert sizes[-1] == len(oracle.encode_record(record, index, MANY[0].timestamp))
        counters = batch.counters
        assert counters["count"] == counters["result_count"] == index + 1
        assert counters["record_bytes"] == sum(sizes)
        assert counters["largest_record"] == max(sizes)
    batch.seal()
    assert batch.counters["wire_bytes"] == sum(sizes)


def test_no_headers_and_an_empty_list_of_headers_are_the_same_bytes() -> None:
    """P-E.3: a count of 0."""
    without, empty = built(pool_bytes=BIG), built(pool_bytes=BIG)
    assert without.append(TIME, b"k", b"v") == empty.append(TIME, b"k", b"v", b"\x00")
    without.seal()
    empty.seal()
    assert whole(without) == whole(empty)


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_foreign_and_own_readers_agree_on_what_was_written(codec: int) -> None:
    batch = built(codec, pool_bytes=1024 * KIB)
    fill(batch, MANY)
    batch.seal()
    data = whole(batch, producer_id=77, producer_epoch=3, base_sequence=41)
    assert decoded(data).records == MANY
    (read,) = read_batches(data)
    assert [record[1:] for record in read.records()] == MANY
    assert (read.codec, read.is_transactional, read.last_offset_delta) == (codec, False, 499)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (77, 3, 41)
    assert read.max_timestamp == max(record.timestamp for record in MANY)
    for reader in (
        kafka_records.DefaultRecordBatch,
        aiokafka_records._DefaultRecordBatchPy,
        aiokafka_compiled.DefaultRecordBatch,
    ):
        foreign = reader(bytearray(data))
        assert foreign.validate_crc()
        assert [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in foreign] == MANY


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_sealing_twice_gives_the_same_bytes(codec: int) -> None:
    """P-D.4.1: a retry goes out as it went before."""
    batch = built(codec, pool_bytes=1024 * KIB)
    fill(batch, MANY)
    batch.seal()
    first, slabs = whole(batch, base_sequence=5), batch.slabs()
    batch.seal()
    assert whole(batch, base_sequence=5) == first
    assert batch.slabs() == slabs


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_new_epoch_changes_only_the_header_and_its_checksum(codec: int) -> None:
    """P-D.4.3, P-F.5.12: the checksum is combined, the records are not read again."""
    batch = built(codec, pool_bytes=1024 * KIB)
    fill(batch, MANY)
    batch.seal()
    before = whole(batch, producer_id=4000, producer_epoch=7, base_sequence=2**31 - 1)
    after = whole(batch, producer_id=2**62, producer_epoch=8, base_sequence=0)
    changed = {at for at in range(len(before)) if before[at] != after[at]}
    assert changed <= {*range(17, 21), *range(43, 57)}
    assert len(before) == len(after)
    for data in (before, after):
        assert int.from_bytes(data[17:21], "big") == oracle.crc32c(data[21:])


def test_producer_state_and_transactional_bit_are_in_the_header() -> None:
    """P-E.1, P-E.2; P-L.184: the sequence is the last before the wrap."""
    batch = built(pool_bytes=BIG)
    fill(batch, [(TIME, b"k", b"v"), (TIME, b"k", b"v")])
    batch.seal()
    data = batch.header(2**63 - 1, 2**15 - 1, 2**31 - 1, True) + batch.body()
    expected = oracle.encode_batch(
        [(TIME, b"k", b"v")] * 2,
        transactional=True,
        producer_id=2**63 - 1,
        producer_epoch=2**15 - 1,
        base_sequence=2**31 - 1,
    )
    assert data == expected


def test_unused_slabs_go_back_to_the_pool_when_the_batch_is_sealed() -> None:
    batch = built(pool_bytes=4 * BIG)
    batch.reserve(2 * BIG + SMALL)
    fill(batch, [(TIME, b"k", b"v")])
    assert batch.counters["free_bytes"] == 2 * BIG - SMALL
    batch.seal()
    assert batch.counters["free_bytes"] == 3 * BIG
    assert len(batch.slabs()) == 1
    assert decoded(whole(batch)).records == [(TIME, b"k", b"v", ())]


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_compressing_gives_the_freed_slabs_back(codec: int) -> None:
    """The output lies in the batch's own slabs, in order, and takes no more of them than needed."""
    batch = built(codec, pool_bytes=8 * BIG)
    fill(batch, [(TIME, None, b"v" * 200_000)])
    assert batch.counters["free_bytes"] < 2 * BIG
    batch.seal()
    assert batch.counters["free_bytes"] == 8 * BIG - sum(size for _, size in batch.slabs())
    assert batch.counters["wire_bytes"] == sum(used for used, _ in batch.slabs())
    assert batch.counters["free_bytes"] >= 6 * BIG
    assert decoded(whole(batch)).records == [(TIME, None, b"v" * 200_000, ())]


@pytest.mark.parametrize("slack", [0, 1, 5, 30])
@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_bytes_that_do_not_compress_are_sent_all_the_same(codec: int, slack: int) -> None:
    """P-E.6, P-E.7.7, P-D.3.6: what the slabs cannot hold goes to the heap; the pool gets its
    own.
    """
    value = random.Random(codec).randbytes(20_000)
    size = len(oracle.encode_record((TIME, None, value), 0, TIME))
    batch = built(codec, slab_bytes=(6_000, 6_000, size - 12_000 + slack))
    heap = size + slack
    fill(batch, [(TIME, None, value)])
    assert batch.counters["heap_bytes"] == heap
    batch.seal()
    excess = batch.counters["wire_bytes"] - heap
    assert batch.counters["heap_bytes"] == heap + max(0, excess)
    assert batch.slabs()[0] == (6_000, 6_000)
    assert decoded(whole(batch)).records == [(TIME, None, value, ())]


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_a_codec_without_its_compressor_is_refused_not_sent_as_it_is(codec: int) -> None:
    """P-E.2: the attributes must not name a codec that the bytes do not have."""
    batch = BatchForTest(codec, None, (), BIG)
    fill(batch, [(TIME, b"k", b"v")])
    with pytest.raises(ValueError, match="not supported"):
        batch.seal()


@pytest.mark.parametrize(
    ("key", "value", "headers", "bound"),
    [
        (None, None, None, 61 + 21 + 3),
        (b"", b"", None, 61 + 21 + 3),
        (b"k", b"v", b"\x00", 61 + 21 + 5),
        (bytes(64), bytes(8192), b"\x02\x02h\x02x", 61 + 21 + 2 + 64 + 3 + 8192 + 5),
    ],
)
def test_upper_bound_of_a_record(
    key: bytes | None, value: bytes | None, headers: bytes | None, bound: int
) -> None:
    """P-E.7.3."""
    assert record_upper_bound_for_test(key, value, headers) == bound
