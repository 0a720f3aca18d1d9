"""Values that a batch borrows instead of copying them: the bytes are those of a copy, and each
reference is given back once."""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing.records_doors import BatchForTest, values_release_for_test
from support.oracle import record_batch as oracle
from support.processes.scale import examples

POOL_BYTES = 1 << 20

TIMESTAMPS = st.integers(1_700_000_000_000, 1_700_000_000_100)
OPTIONAL = st.none() | st.binary(max_size=70)
HEADERS = st.lists(st.tuples(st.text(max_size=8), OPTIONAL), max_size=3).map(tuple)
# An object of its own each time; the interpreter shares those of up to one byte.
SIZES = st.integers(2, 90) | st.sampled_from([2048, 4096, 32_768 - 9, 32_768, 100_000])
VALUES = st.tuples(SIZES, st.integers(0, 255)).map(lambda each: bytes([each[1]]) * each[0])
ROWS = st.lists(
    st.tuples(
        st.builds(oracle.Record, TIMESTAMPS, OPTIONAL, VALUES, HEADERS),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
).filter(lambda rows: any(stays for _, _, stays in rows))


@settings(max_examples=examples(500), deadline=None)
@given(
    rows=ROWS,
    slab_bytes=st.just([]) | st.lists(st.integers(1, 300), min_size=1, max_size=4),
    removes=st.booleans(),
    seals=st.booleans(),
)
def test_any_mix_of_lent_and_copied_values_has_the_oracles_bytes(
    rows: list[tuple[oracle.Record, bool, bool]],
    slab_bytes: list[int],
    removes: bool,
    seals: bool,
) -> None:
    """With headers behind them, wherever slabs end; a batch that is never sent gives all back."""
    values = [record.value for record, _, _ in rows]
    references = [sys.getrefcount(value) for value in values]
    batch = BatchForTest(slab_bytes=slab_bytes, pool_bytes=POOL_BYTES)
    for record, is_lent, _ in rows:
        headers = oracle.encode_headers(record.headers) if record.headers else None
        batch.append(record.timestamp, record.key, record.value, headers, is_lent)
    expected = [record for record, _, stays in rows if stays or not removes]
    if len(expected) < len(rows):
        batch.remove([index for index, (_, _, stays) in enumerate(rows) if not stays])
    plain = oracle.encode_records(expected, base_timestamp=rows[0][0].timestamp)
    assert batch.counters["record_bytes"] == len(plain)
    if seals:
        batch.seal()
        assert batch.body() == plain
        read = oracle.decode_batch(batch.header() + batch.body())
        assert read.records == expected
    del batch
    values_release_for_test()
    assert [sys.getrefcount(value) for value in values] == references


def test_a_lent_value_takes_of_the_pool_what_a_copy_would() -> None:
    batch = BatchForTest(pool_bytes=POOL_BYTES)
    value = bytes(500_000)
    batch.append(1, None, value, None, True)
    taken = POOL_BYTES - batch.counters["free_bytes"]
    assert len(value) <= taken <= len(value) + 32_768
    batch.seal()
    assert POOL_BYTES - batch.counters["free_bytes"] == taken
