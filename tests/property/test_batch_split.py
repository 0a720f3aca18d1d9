"""Any batch, split again and again, keeps its records, their order and their futures (P-D.9)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing import codec_doors
from fastprod._core.testing.records_doors import BatchForTest
from fastprod._core.testing.request_doors import SplitsForTest
from support.oracle import record_batch as oracle
from support.processes.scale import examples

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LEVELS = [0, -1, 0, 9, 3]
HEADER = 61
OPTIONAL = st.none() | st.binary(max_size=80)
RECORDS = st.lists(
    st.builds(
        oracle.Record,
        st.integers(1_699_999_999_900, 1_700_000_000_100) | st.integers(0, 2**63 - 1),
        OPTIONAL,
        OPTIONAL,
        st.lists(st.tuples(st.text(max_size=5), OPTIONAL), max_size=2).map(tuple),
    ),
    min_size=2,
    max_size=40,
)


def batch_of(records: list[oracle.Record], codec: int, slab_bytes: list[int]) -> BatchForTest:
    batch = BatchForTest(codec, LEVELS[codec] if codec else None, slab_bytes)
    for timestamp, key, value, headers in records:
        batch.append(timestamp, key, value, oracle.encode_headers(headers))
    batch.seal()
    return batch


def decoded(data: bytes) -> oracle.Batch:
    return oracle.decode_batch(
        data, decompress=lambda part: codec_doors.decompress_for_test(CODECS[data[22] & 7], part)
    )


@settings(max_examples=examples(200))
@given(
    records=RECORDS,
    codec=st.integers(0, 4),
    slab_bytes=st.lists(st.integers(1, 500), min_size=1, max_size=3),
    batch_bytes=st.integers(1, 4000),
    sequence=st.integers(-1, 2**31 - 1) | st.integers(2**31 - 40, 2**31 - 1),
    data=st.data(),
)
def test_splitting_again_and_again_keeps_everything(
    records: list[oracle.Record],
    codec: int,
    slab_bytes: list[int],
    batch_bytes: int,
    sequence: int,
    data: st.DataObject,
) -> None:
    splits = SplitsForTest(batch_of(records, codec, slab_bytes), batch_bytes, 7, sequence)
    for again in range(data.draw(st.integers(1, 5))):
        before = [decoded(flight["data"]) for flight in splits.flights()]
        large = [place for place, batch in enumerate(before) if len(batch.records) > 1]
        if not large:
            break
        place = data.draw(st.sampled_from(large))
        size = splits.flights()[place]["plain_bytes"]
        count = splits.split(place)
        assert count >= 2
        flights = splits.flights()
        made = [decoded(flight["data"]) for flight in flights]
        parent = before[place]
        whole = [
            HEADER + len(oracle.encode_record(record, index, parent.base_timestamp))
            for index, record in enumerate(parent.records)
        ]
        target = batch_bytes if again == 0 and size > batch_bytes else max(size // 2, *whole)
        for batch, flight in zip(made[place : place + count], flights[place:], strict=False):
            assert flight["plain_bytes"] <= target or len(batch.records) == 1
        check_all(splits, made, records, codec, sequence)


def check_all(
    splits: SplitsForTest,
    made: list[oracle.Batch],
    records: list[oracle.Record],
    codec: int,
    sequence: int,
) -> None:
    assert [record for batch in made for record in batch.records] == records
    assert {batch.codec for batch in made} == {codec}
    offset = 0
    for batch in made:
        expected = -1 if sequence < 0 else (sequence + offset) % 2**31
        assert batch.base_sequence == expected
        offset += len(batch.records)
    for index, record in enumerate(records):
        place, at = splits.place_of(index)
        assert made[place].records[at] == record
    assert splits.counters["incomplete"] == len(made)
