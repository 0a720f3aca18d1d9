"""Records taken out of any batch: what is left is what was left out of a plain list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing import codec_doors
from fastprod._core.testing.records_doors import BatchForTest
from support.oracle import record_batch as oracle
from support.processes.scale import examples

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LEVELS = [0, -1, 0, 9, 3]
TIMESTAMPS = st.integers(1_699_999_999_900, 1_700_000_000_100) | st.integers(0, 2**63 - 1)
OPTIONAL = st.none() | st.binary(max_size=70)
HEADERS = st.lists(st.tuples(st.text(max_size=8), OPTIONAL), max_size=3).map(tuple)
RECORDS = st.lists(
    st.tuples(st.builds(oracle.Record, TIMESTAMPS, OPTIONAL, OPTIONAL, HEADERS), st.booleans()),
    min_size=1,
    max_size=150,
).filter(lambda records: any(stays for _, stays in records))


@settings(max_examples=examples(300))
@given(
    records=RECORDS,
    slab_bytes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    codec=st.integers(0, 4),
)
def test_what_stays_is_all_that_is_in_the_batch(
    records: list[tuple[oracle.Record, bool]], slab_bytes: list[int], codec: int
) -> None:
    """Their order and bytes, offsets from 0 without a gap, sizes, largest timestamp, CRC."""
    batch = BatchForTest(codec, LEVELS[codec], slab_bytes)
    for record, _ in records:
        headers = oracle.encode_headers(record.headers) if record.headers else None
        batch.append(record.timestamp, record.key, record.value, headers)
    batch.remove([index for index, (_, stays) in enumerate(records) if not stays])
    batch.seal()
    expected = [record for record, stays in records if stays]
    written = batch.header() + batch.body()
    read = oracle.decode_batch(
        written, decompress=lambda part: codec_doors.decompress_for_test(CODECS[codec], part)
    )
    assert read.records == expected
    assert read.offsets == list(range(len(expected)))
    assert read.max_timestamp == max(record.timestamp for record in expected)
    assert batch.counters["count"] == len(expected)
    plain = oracle.encode_records(expected, base_timestamp=records[0][0].timestamp)
    assert batch.counters["record_bytes"] == len(plain)
    if codec == 0:
        assert batch.body() == plain
