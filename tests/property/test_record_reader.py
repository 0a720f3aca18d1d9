"""The record reader against the slow oracle: sound batches, damaged records, damaged batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.records.record_reader import RecordBatch, read_batches
from fastprod._core.testing import codec_doors
from fastprod.errors import CorruptRecordError, InvalidRecordError
from support.oracle import record_batch as oracle

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
INT16 = st.integers(min_value=-(2**15), max_value=2**15 - 1)
OPTIONAL = st.none() | st.binary(max_size=70)
# Of one to four bytes in UTF-8. All of Unicode would cost seconds in a new checkout.
HEADER_KEYS = st.text(st.sampled_from("ab\u00e9\u20ac\U0001f600"), max_size=5)
RECORDS = st.lists(
    st.builds(
        oracle.Record,
        st.integers(min_value=0, max_value=2**44) | INT64,
        OPTIONAL,
        OPTIONAL,
        st.lists(st.tuples(HEADER_KEYS, OPTIONAL), max_size=3).map(tuple),
    ),
    max_size=8,
)
LIMIT = 1 << 20
# A busy machine is no fault of the reader.


@st.composite
def encoded(draw: st.DrawFn) -> bytes:
    """A sound batch with any header."""
    codec = draw(st.integers(0, 4))
    records = draw(RECORDS)
    return oracle.encode_batch(
        records,
        base_offset=draw(INT64),
        partition_leader_epoch=draw(INT32),
        codec=codec,
        compress=lambda part: codec_doors.compress_for_test(CODECS[codec], 3, [part]),
        transactional=draw(st.booleans()),
        control=draw(st.booleans()),
        log_append_time=draw(st.booleans()),
        producer_id=draw(INT64),
        producer_epoch=draw(INT16),
        base_sequence=draw(INT32),
        max_timestamp=draw(INT64),
        offset_deltas=draw(st.lists(INT32, min_size=len(records), max_size=len(records))),
        last_offset_delta=draw(INT32),
    )


def decompress(batch: RecordBatch) -> oracle.Transform:
    return lambda part: codec_doors.decompress_for_test(CODECS[batch.codec], part)


def same_header(batch: RecordBatch, expected: oracle.Batch) -> bool:
    return all(
        getattr(batch, field) == getattr(expected, field)
        for field in (
            "base_offset",
            "batch_length",
            "partition_leader_epoch",
            "crc",
            "attributes",
            "codec",
            "is_transactional",
            "is_control",
            "is_log_append_time",
            "last_offset_delta",
            "base_timestamp",
            "max_timestamp",
            "producer_id",
            "producer_epoch",
            "base_sequence",
        )
    )


@given(parts=st.lists(encoded(), max_size=3), tail=st.binary(max_size=11))
def test_sound_batches_are_read_as_the_oracle_reads_them(parts: list[bytes], tail: bytes) -> None:
    read = read_batches(b"".join(parts) + tail)
    assert [batch.raw() for batch in read] == parts
    for batch in read:
        expected = oracle.decode_batch(batch.raw(), decompress=decompress(batch))
        assert same_header(batch, expected)
        assert batch.record_count == len(expected.records)
        assert [(record.offset, record[1:]) for record in batch.records()] == list(
            zip(expected.offsets, expected.records, strict=True)
        )


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes changed, a stretch dropped or doubled."""
    out = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        if out:
            out[draw(st.integers(0, len(out) - 1))] = draw(st.integers(0, 255))
    a, b = sorted((draw(st.integers(0, len(out))), draw(st.integers(0, len(out)))))
    shape = draw(st.sampled_from(["as it is", "dropped", "doubled"]))
    if shape == "dropped":
        del out[a:b]
    elif shape == "doubled":
        out[b:b] = out[a:b]
    return bytes(out)


@given(data=st.data(), records=RECORDS, more=st.sampled_from([0, 0, 0, 1, -1]))
def test_damaged_records_are_refused_exactly_where_the_oracle_refuses_them(
    data: st.DataObject, records: list[oracle.Record], more: int
) -> None:
    part = data.draw(damaged(oracle.encode_records(records)))
    codec = data.draw(st.integers(0, 4))
    blob = codec_doors.compress_for_test(CODECS[codec], 3, [part])
    whole = oracle.assemble(blob, attributes=codec, record_count=len(records) + more)
    (batch,) = read_batches(whole, limit_bytes=LIMIT)
    try:
        expected = oracle.decode_batch(whole, decompress=decompress(batch))
    except oracle.BatchError:
        expected = None
    try:
        read = batch.records()
    except InvalidRecordError:
        assert expected is None
        return
    assert expected is not None
    assert [record[1:] for record in read] == expected.records
    assert [record.offset for record in read] == expected.offsets


@given(data=st.data(), batch=encoded())
def test_damaged_batches_never_do_more_than_raise(data: st.DataObject, batch: bytes) -> None:
    blob = bytearray(data.draw(damaged(batch)))
    if data.draw(st.booleans()) and len(blob) > 61:
        # A right CRC lets the damage through to what lies behind it.
        blob[17:21] = oracle.crc32c(bytes(blob[21:])).to_bytes(4, "big")
        blob[8:12] = (len(blob) - 12).to_bytes(4, "big")
    try:
        for read in read_batches(blob, limit_bytes=LIMIT):
            read.records()
            read.end_marker() if read.record_count == 1 else None
    except (CorruptRecordError, InvalidRecordError) as error:
        assert "base offset" in str(error) or "control record" in str(error)  # noqa: PT017


@given(noise=st.binary(max_size=150))
def test_noise_never_does_more_than_raise(noise: bytes) -> None:
    for blob in (noise, noise[:8] + bytes([0, 0, 0, 60]) + noise[8:12] + b"\x02" + noise[12:]):
        try:
            for read in read_batches(blob, limit_bytes=LIMIT):
                read.records()
        except (CorruptRecordError, InvalidRecordError) as error:
            assert "base offset" in str(error)  # noqa: PT017
