"""Batches of any records against the slow oracle: bytes, sizes, bounds, every codec."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.records.record_reader import read_batches
from fastprod._core.testing import codec_doors
from fastprod._core.testing.records_doors import BatchForTest, record_upper_bound_for_test
from support.oracle import record_batch as oracle
from support.processes.scale import examples

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LEVELS = [0, -1, 0, 9, 3]
POOL_BYTES = 4 << 20
HEADER = 61
LARGEST = 200_000

# A timestamp is never negative (P-A.2), but later ones may be earlier.
TIMESTAMPS = st.integers(1_699_999_999_900, 1_700_000_000_100) | st.integers(0, 2**63 - 1)
OPTIONAL = st.none() | st.binary(max_size=70)
HEADERS = st.lists(st.tuples(st.text(max_size=8), OPTIONAL), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(oracle.Record, TIMESTAMPS, OPTIONAL, OPTIONAL, HEADERS), min_size=1, max_size=30
)
SLABS = st.lists(st.integers(1, 300), min_size=1, max_size=4)
EPOCHS = st.integers(-1, 2**15 - 1)
SEQUENCES = st.integers(-1, 2**31 - 1)


@st.composite
def large(draw: st.DrawFn) -> bytes | None:
    """A pattern, repeated up to 200 kB."""
    pattern = draw(OPTIONAL)
    if not pattern:
        return pattern
    size = draw(st.integers(0, LARGEST) | st.sampled_from([4096 - 9, 32768 - 9, LARGEST]))
    return (pattern * (size // len(pattern) + 1))[:size]


LARGE_RECORDS = st.lists(
    st.builds(oracle.Record, TIMESTAMPS, large(), large(), HEADERS), min_size=1, max_size=4
)


def append(batch: BatchForTest, record: oracle.Record) -> int:
    headers = oracle.encode_headers(record.headers) if record.headers else None
    return batch.append(record.timestamp, record.key, record.value, headers)


def sealed(batch: BatchForTest, records: list[oracle.Record]) -> BatchForTest:
    for record in records:
        append(batch, record)
    batch.seal()
    return batch


@settings(max_examples=examples(300))
@given(
    records=RECORDS,
    slab_bytes=SLABS,
    transactional=st.booleans(),
    producer_id=st.integers(-1, 2**63 - 1),
    epoch=EPOCHS,
    sequence=SEQUENCES,
)
def test_any_batch_has_the_oracles_bytes(
    records: list[oracle.Record],
    slab_bytes: list[int],
    transactional: bool,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> None:
    """P-E.1 to P-E.3, wherever the slabs end."""
    batch = sealed(BatchForTest(slab_bytes=slab_bytes), records)
    written = batch.header(producer_id, epoch, sequence, transactional) + batch.body()
    assert written == oracle.encode_batch(
        records,
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    (read,) = read_batches(written)
    assert [record[1:] for record in read.records()] == records


@settings(max_examples=examples(100))
@given(records=LARGE_RECORDS)
def test_large_records_have_the_oracles_bytes(records: list[oracle.Record]) -> None:
    """0 to 200 kB, over slabs of both sizes."""
    batch = sealed(BatchForTest(pool_bytes=POOL_BYTES), records)
    assert batch.body() == oracle.encode_records(records)
    (read,) = read_batches(batch.header() + batch.body())
    assert [record[1:] for record in read.records()] == records


# Around the sizes at which a record's length takes another byte.
EDGES = st.integers(0, 90) | st.integers(8_150, 8_200)
EDGE_RECORDS = st.lists(
    st.builds(oracle.Record, TIMESTAMPS, OPTIONAL, EDGES.map(bytes), HEADERS),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(300))
@given(
    records=RECORDS | EDGE_RECORDS | LARGE_RECORDS,
    slab_bytes=st.just([]) | st.lists(st.integers(50, 20_000), min_size=1, max_size=3),
    most_bytes=st.integers(-1, 20_000),
)
def test_a_run_of_records_has_the_oracles_bytes(
    records: list[oracle.Record], slab_bytes: list[int], most_bytes: int
) -> None:
    """Behind the first, in runs, and one by one where a run ends."""
    batch = BatchForTest(slab_bytes=slab_bytes, pool_bytes=POOL_BYTES)
    size = append(batch, records[0])
    done = 1
    while done < len(records):
        taken = batch.append_run(
            [
                (each[0], each[1], each[2], oracle.encode_headers(each[3]) if each[3] else None)
                for each in records[done:]
            ],
            most_bytes,
        )
        done += taken
        written = batch.counters["record_bytes"] - size
        assert 0 <= written <= max(0, most_bytes)
        assert batch.counters["result_count"] == done
        if taken == 0:
            append(batch, records[done])
            done += 1
        size = batch.counters["record_bytes"]
    batch.seal()
    assert batch.header() + batch.body() == oracle.encode_batch(records)
    sizes = [
        len(oracle.encode_record(each, index, records[0].timestamp))
        for index, each in enumerate(records)
    ]
    assert batch.counters["largest_record"] == max(sizes)


@settings(max_examples=examples(200))
@given(
    records=RECORDS | LARGE_RECORDS,
    codec=st.integers(1, 4),
    slab_bytes=st.just([]) | st.lists(st.integers(50, 5000), min_size=1, max_size=3),
)
def test_compressed_batches_hold_the_same_records(
    records: list[oracle.Record], codec: int, slab_bytes: list[int]
) -> None:
    """P-E.1.2, P-E.6, and the checksum over both parts."""
    batch = sealed(BatchForTest(codec, LEVELS[codec], slab_bytes, POOL_BYTES), records)
    written = batch.header(4000, 7, 41) + batch.body()
    plain = codec_doors.decompress_for_test(CODECS[codec], batch.body())
    assert plain == oracle.encode_records(records)
    (read,) = read_batches(written)
    assert (read.codec, read.record_count) == (codec, len(records))
    assert read.last_offset_delta == len(records) - 1
    assert [record[1:] for record in read.records()] == records
    counters = batch.counters
    assert counters["wire_bytes"] == len(written) - HEADER
    assert counters["record_bytes"] == len(plain)
    held = sum(size for _, size in batch.slabs())
    assert counters["free_bytes"] + held >= POOL_BYTES
    assert all(0 < used <= size for used, size in batch.slabs())


@given(records=RECORDS, slab_bytes=SLABS)
def test_the_predicted_size_is_the_size(
    records: list[oracle.Record], slab_bytes: list[int]
) -> None:
    """P-E.7.1, and P-E.7.2 without a codec; P-L.185 testEstimatedSizeInBytes."""
    batch = BatchForTest(slab_bytes=slab_bytes)
    total = 0
    for index, record in enumerate(records):
        size = append(batch, record)
        assert size == len(oracle.encode_record(record, index, records[0].timestamp))
        total += size
        assert batch.counters["record_bytes"] == total
    batch.seal()
    assert len(batch.header() + batch.body()) == HEADER + total


@given(
    record=st.builds(oracle.Record, TIMESTAMPS, OPTIONAL | large(), OPTIONAL | large(), HEADERS),
    base=st.integers(0, 2**63 - 1),
    index=st.integers(0, 2**31 - 1),
)
def test_the_upper_bound_is_never_exceeded(record: oracle.Record, base: int, index: int) -> None:
    """P-E.7.3: neither alone in a batch nor with the worst deltas."""
    headers = oracle.encode_headers(record.headers)
    bound = record_upper_bound_for_test(record.key, record.value, headers)
    alone = sealed(BatchForTest(pool_bytes=POOL_BYTES), [record])
    assert len(alone.header() + alone.body()) <= bound
    assert HEADER + len(oracle.encode_record(record, index, base)) <= bound


@given(records=RECORDS, codec=st.integers(0, 4), epochs=st.tuples(EPOCHS, EPOCHS))
def test_sealed_bytes_stay_and_only_the_header_follows_the_producer_state(
    records: list[oracle.Record], codec: int, epochs: tuple[int, int]
) -> None:
    """P-D.4.1, P-D.4.3: the combined checksum is the checksum."""
    level = LEVELS[codec] if codec else None
    batch = sealed(BatchForTest(codec, level, (), POOL_BYTES), records)
    body = batch.body()
    for epoch in epochs:
        batch.seal()
        header = batch.header(9, epoch, epoch)
        assert batch.body() == body
        assert header[51:53] == epoch.to_bytes(2, "big", signed=True)
        assert int.from_bytes(header[17:21], "big") == oracle.crc32c(header[21:] + body)
