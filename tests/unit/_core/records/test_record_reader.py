"""Reading batches v2: vectors P-E.8 to P-E.11, foreign writers, and what must be refused.

P-L.183, P-L.184 and the second part of P-L.188 (DefaultRecordTest,
DefaultRecordBatchTest, ByteBufferLogInputStreamTest) as far as they speak of reading.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import aiokafka.record.default_records as aiokafka_records  # type: ignore[import-untyped]
import crc32c
import kafka.record.default_records as kafka_records
import pytest
from aiokafka.record._crecords import (  # type: ignore[import-untyped]
    default_records as aiokafka_compiled,
)

from fastprod._core.codec import loader
from fastprod._core.records.record_reader import (
    EndTransactionMarker,
    ReadRecord,
    RecordBatch,
    read_batches,
)
from fastprod._core.testing import codec_doors
from fastprod.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
)
from support.oracle import record_batch as oracle
from support.records import known_batches

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TIME = 1_700_000_000_000
MANY = [
    (TIME + i * 7 % 50, b"key-%d" % (i % 9) if i % 3 else None, b"value-%d" % i * 9, ())
    for i in range(500)
]


def contents(batch: RecordBatch) -> list[tuple[object, ...]]:
    return [record[1:] for record in batch.records()]


def compressed(codec: int, part: bytes) -> bytes:
    return codec_doors.compress_for_test(CODECS[codec], 3, [part])


def body(*fields: bytes) -> bytes:
    """A record of these bytes after its length."""
    joined = b"".join(fields)
    return oracle.varint(len(joined)) + joined


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (known_batches.VECTOR_A, known_batches.RECORDS_A),
        (known_batches.VECTOR_B, known_batches.RECORDS_B),
        (known_batches.VECTOR_C, known_batches.RECORDS_A),
        (known_batches.VECTOR_D, known_batches.RECORDS_D),
    ],
    ids="ABCD",
)
def test_vectors_of_the_contract_are_read(data: bytes, records: list[tuple[object, ...]]) -> None:
    """P-E.1.1, P-E.8, P-E.9, P-E.10, P-E.11."""
    (batch,) = read_batches(data)
    assert contents(batch) == records
    assert [record.offset for record in batch.records()] == list(range(len(records)))
    assert batch.record_count == len(records)
    assert batch.last_offset_delta == len(records) - 1
    assert batch.next_offset == len(records)
    assert batch.size_bytes == len(data) == batch.batch_length + 12
    assert batch.raw() == data
    assert (batch.base_offset, batch.partition_leader_epoch) == (0, -1)
    assert batch.base_timestamp == TIME
    assert not batch.is_log_append_time


def test_header_fields_of_the_vectors() -> None:
    (a,) = read_batches(known_batches.VECTOR_A)
    assert (a.crc, a.attributes, a.max_timestamp) == (0x3EE19465, 0, TIME + 1)
    assert (a.producer_id, a.producer_epoch, a.base_sequence) == (-1, -1, -1)
    assert (a.codec, a.is_transactional, a.is_control) == (0, False, False)
    (b,) = read_batches(known_batches.VECTOR_B)
    assert (b.producer_id, b.producer_epoch, b.base_sequence) == (4000, 7, 2**31 - 1)
    assert (b.codec, b.is_transactional, b.is_control) == (0, True, False)
    (c,) = read_batches(known_batches.VECTOR_C)
    assert (c.codec, c.attributes) == (3, 3)
    (d,) = read_batches(known_batches.VECTOR_D)
    assert (d.is_transactional, d.is_control, d.base_sequence) == (True, True, -1)


def test_a_control_batch_tells_how_its_transaction_ended() -> None:
    # P-E.4
    (commit,) = read_batches(known_batches.VECTOR_D)
    assert commit.end_marker() == EndTransactionMarker(0, 1, 9)
    assert commit.next_offset == 1
    (data,) = read_batches(known_batches.VECTOR_A)
    assert data.end_marker() is None


@pytest.mark.parametrize(
    ("key", "value", "marker"),
    [
        ("00000000", "00000000000c", EndTransactionMarker(0, 0, 12)),
        ("00010001aabb", "00010000000cdd", EndTransactionMarker(1, 1, 12)),  # a newer version
        ("00000002", "0000", None),  # leader change
    ],
)
def test_control_records_of_other_kinds_and_versions_are_read(
    key: str, value: str, marker: EndTransactionMarker | None
) -> None:
    record = (TIME, bytes.fromhex(key), bytes.fromhex(value))
    (batch,) = read_batches(oracle.encode_batch([record], control=True, transactional=True))
    assert batch.end_marker() == marker


@pytest.mark.parametrize(
    ("key", "value"), [("000000", "00000000000c"), ("ffff0000", ""), ("00000001", "0000000000")]
)
def test_short_control_records_are_invalid(key: str, value: str) -> None:
    record = (TIME, bytes.fromhex(key), bytes.fromhex(value))
    (batch,) = read_batches(oracle.encode_batch([record], control=True))
    with pytest.raises(InvalidRecordError):
        batch.end_marker()


def test_a_control_batch_that_compaction_emptied_tells_nothing() -> None:
    """P-E.4; found by make fuzz."""
    (batch,) = read_batches(oracle.encode_batch([], control=True, last_offset_delta=0))
    assert batch.records() == []
    assert batch.end_marker() is None


def test_a_control_batch_has_one_record() -> None:
    """P-E.4; found by make fuzz."""
    record = (TIME, bytes(4), bytes(6))
    (batch,) = read_batches(oracle.encode_batch([record, record], control=True))
    with pytest.raises(InvalidRecordError, match="2 records"):
        batch.end_marker()


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_offsets_timestamps_and_compacted_gaps(codec: int) -> None:
    data = oracle.encode_batch(
        MANY[:3],
        base_offset=2**40,
        partition_leader_epoch=5,
        codec=codec,
        compress=lambda part: compressed(codec, part),
        offset_deltas=[0, 4, 9],
        last_offset_delta=11,
    )
    (batch,) = read_batches(data)
    assert [record.offset - 2**40 for record in batch.records()] == [0, 4, 9]
    assert batch.next_offset == 2**40 + 12
    assert batch.partition_leader_epoch == 5
    assert contents(batch) == MANY[:3]


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = oracle.encode_batch(MANY[:3], log_append_time=True, max_timestamp=TIME + 999)
    (batch,) = read_batches(data)
    assert batch.is_log_append_time
    assert [record.timestamp for record in batch.records()] == [TIME + 999] * 3
    assert [record.timestamp for record in oracle.decode_batch(data).records] == [TIME + 999] * 3


BUILDERS = {
    "kafka-python": kafka_records.DefaultRecordBatchBuilder,
    "aiokafka": aiokafka_records._DefaultRecordBatchBuilderPy,
    "aiokafka, compiled": aiokafka_compiled.DefaultRecordBatchBuilder,
}


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
@pytest.mark.parametrize("who", BUILDERS)
def test_batches_of_foreign_producers_are_read(who: str, codec: int) -> None:
    builder = BUILDERS[who](
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=41,
        batch_size=1 << 20,
    )
    records = [*known_batches.RECORDS_A, *MANY]
    for i, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(i, timestamp, key, value, list(headers)) is not None
    (batch,) = read_batches(builder.build())
    assert batch.codec == codec
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 41)
    assert batch.max_timestamp == max(record[0] for record in records)
    assert contents(batch) == records


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_foreign_consumers_read_what_our_codecs_write(codec: int) -> None:
    data = oracle.encode_batch(MANY, codec=codec, compress=lambda part: compressed(codec, part))
    for reader in (
        kafka_records.DefaultRecordBatch,
        aiokafka_records._DefaultRecordBatchPy,
        aiokafka_compiled.DefaultRecordBatch,
    ):
        batch = reader(bytearray(data))
        assert batch.validate_crc()
        assert [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == MANY


def test_batches_follow_each_other_and_an_incomplete_tail_is_ignored() -> None:
    # P-L.188: ByteBufferLogInputStreamTest
    data = known_batches.VECTOR_A + known_batches.VECTOR_B + known_batches.VECTOR_C
    for size in range(len(data) + 1):
        whole = [
            end
            for end in (
                len(known_batches.VECTOR_A),
                len(known_batches.VECTOR_A + known_batches.VECTOR_B),
                len(data),
            )
            if end <= size
        ]
        read = read_batches(data[:size])
        assert [batch.position + batch.size_bytes for batch in read] == whole


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(wrap: type[bytes]) -> None:
    (batch,) = read_batches(wrap(known_batches.VECTOR_A))
    assert contents(batch) == known_batches.RECORDS_A


def put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_batch_too_small_is_corrupt_even_if_incomplete(length: int) -> None:
    data = put(known_batches.VECTOR_A, 8, length.to_bytes(4, "big", signed=True))
    for size in (12, 17, len(data)):
        with pytest.raises(CorruptRecordError, match=f"batchLength is {length}") as raised:
            read_batches(data[:size])
        assert (raised.value.value, raised.value.limit) == (length, 14)  # type: ignore[attr-defined]


def test_a_batch_without_room_for_its_header_is_corrupt() -> None:
    data = put(known_batches.VECTOR_A, 8, (48).to_bytes(4, "big"))
    with pytest.raises(CorruptRecordError, match="batchLength is 48, the least is 49"):
        read_batches(data)


def test_a_batch_too_large_is_corrupt_even_if_incomplete() -> None:
    assert len(read_batches(known_batches.VECTOR_A, limit_bytes=93)) == 1
    for size in (12, 17, len(known_batches.VECTOR_A)):
        with pytest.raises(CorruptRecordError, match="batchLength is 93, above limit_bytes = 92"):
            read_batches(known_batches.VECTOR_A[:size], limit_bytes=92)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_bad_magic_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"magic is {magic}"):
        read_batches(put(known_batches.VECTOR_A, 16, bytes([magic])))


@pytest.mark.parametrize("at", range(17, 105))
def test_a_changed_bit_behind_the_magic_fails_the_checksum(at: int) -> None:
    data = put(known_batches.VECTOR_A, at, bytes([known_batches.VECTOR_A[at] ^ 0x10]))
    with pytest.raises(CorruptRecordError, match="CRC-32C") as raised:
        read_batches(known_batches.VECTOR_B + data)
    assert raised.value.position == 91  # type: ignore[attr-defined]


def test_verified_batches_are_those_that_are_read_anyway() -> None:
    data = known_batches.VECTOR_A + known_batches.VECTOR_B + known_batches.VECTOR_C
    read = read_batches(bytearray(data), verify=True)
    assert [batch.raw() for batch in read] == [batch.raw() for batch in read_batches(data)]
    with pytest.raises(CorruptRecordError, match="its header says"):
        read_batches(put(data, 100, b"?"), verify=True)


@pytest.mark.parametrize("crc", [None, bytes(4)])
def test_a_second_opinion_that_differs_is_told_only_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, crc: bytes | None
) -> None:
    """Also where our own CRC is not the header's."""
    data = known_batches.VECTOR_A if crc is None else put(known_batches.VECTOR_A, 17, crc)
    seen = []

    def wrong(checked: memoryview) -> int:
        seen.append(bytes(checked))
        return 0xABC

    monkeypatch.setattr(crc32c, "crc32c", wrong)
    with pytest.raises(CorruptRecordError, match="00000abc to the package crc32c") as raised:
        read_batches(known_batches.VECTOR_B + data, verify=True)
    assert seen == [known_batches.VECTOR_B[21:]]
    assert raised.value.limit == 0xABC  # type: ignore[attr-defined]
    seen.clear()
    read_batches(known_batches.VECTOR_A)
    assert seen == []


def test_the_leader_epoch_and_the_base_offset_are_not_in_the_checksum() -> None:
    data = put(put(known_batches.VECTOR_A, 12, bytes(4)), 0, (9).to_bytes(8, "big"))
    (batch,) = read_batches(data)
    assert (batch.base_offset, batch.partition_leader_epoch) == (9, 0)
    assert [record.offset for record in batch.records()] == [9, 10, 11]


GOOD = (b"\x00", b"\x00", b"\x00", b"\x02k", b"\x02v", b"\x00")
BAD_RECORDS = {
    "no record": (b"", "bytes end after 0 records"),
    "length 0": (b"\x00", "claims 0 bytes"),
    "negative length": (b"\x01", "claims -1 bytes"),
    "length above the data": (oracle.varint(9) + bytes(8), "claims 9 bytes, 8 are left"),
    "length shorter than the record": (b"\x0c" + b"".join(GOOD), "value of 1 bytes, 0 are left"),
    "length longer than the record": (body(*GOOD, b"\x00"), "1 of its 9 bytes left"),
    "length varint of 6 bytes": (b"\x80" * 5 + b"\x01", "varint"),
    "length varint above 32 bits": (b"\x80" * 4 + b"\x10", "varint"),
    "length varint without an end": (b"\x80", "varint"),
    "timestamp delta of 11 bytes": (body(b"\x00", b"\x80" * 10 + b"\x01", *GOOD[2:]), "varint"),
    "timestamp delta above 64 bits": (body(b"\x00", b"\x80" * 9 + b"\x02", *GOOD[2:]), "varint"),
    "offset delta of 6 bytes": (body(b"\x00\x00", b"\x80" * 5 + b"\x01", *GOOD[3:]), "varint"),
    "nothing but attributes": (body(b"\x00"), "varint"),
    "key longer than the record": (body(*GOOD[:3], b"\x80\x02"), "key of 128 bytes, 0 are left"),
    "key length -2": (body(*GOOD[:3], b"\x03", *GOOD[4:]), "key of -2 bytes"),
    "value longer than the record": (body(*GOOD[:4], b"\x06v", b"\x00"), "value of 3 bytes, 2"),
    "value length -2": (body(*GOOD[:4], b"\x03", b"\x00"), "value of -2 bytes"),
    "header count above the bytes left": (body(*GOOD[:5], b"\x06", b"\x00\x00"), "3 headers in 2"),
    "header count too high": (body(*GOOD[:5], b"\x04", b"\x02h\x00"), "varint"),
    "header count too low": (body(*GOOD[:5], b"\x00", b"\x02h\x00"), "3 of its"),
    "negative header count": (body(*GOOD[:5], b"\x01"), "-1 headers"),
    "null header key": (body(*GOOD[:5], b"\x02", b"\x01\x00"), "header key of -1 bytes"),
    "header key above the data": (body(*GOOD[:5], b"\x02", b"\x06h\x00"), "header key of 3 bytes"),
    "header value length -2": (body(*GOOD[:5], b"\x02", b"\x02h\x03"), "header value of -2 bytes"),
    "header value above the data": (body(*GOOD[:5], b"\x02", b"\x02h\x04v"), "header value of 2"),
}


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
@pytest.mark.parametrize("what", BAD_RECORDS)
def test_records_that_do_not_parse_are_invalid(what: str, codec: int) -> None:
    # P-E.3.4; P-L.183
    part, message = BAD_RECORDS[what]
    if codec:
        part = compressed(codec, part)
    (batch,) = read_batches(oracle.assemble(part, attributes=codec))
    with pytest.raises(InvalidRecordError, match=message):
        batch.records()


def test_a_good_record_of_the_same_making_is_read() -> None:
    (batch,) = read_batches(oracle.assemble(body(*GOOD), base_timestamp=5))
    assert batch.records() == [ReadRecord(0, 5, b"k", b"v", ())]


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
@pytest.mark.parametrize(
    ("count", "message"),
    [
        (4, "recordsCount is 4, its bytes end after 3 records"),
        (2**31 - 1, "bytes end after 3 records"),
        (2, "recordsCount is 2, .* bytes follow"),
        (0, "recordsCount is 0, .* bytes follow"),
        (-1, "recordsCount is -1"),
    ],
)
def test_a_wrong_record_count_is_invalid_when_iterated(
    codec: int, count: int, message: str
) -> None:
    # P-E.3.5; P-L.184
    data = oracle.encode_batch(
        MANY[:3],
        codec=codec,
        compress=lambda part: compressed(codec, part),
        record_count=count,
    )
    (batch,) = read_batches(data)
    assert batch.record_count == count
    with pytest.raises(InvalidRecordError, match=message):
        batch.records()


def test_an_empty_batch_is_read() -> None:
    # A compacted log keeps the header alone of a producer's last batch.
    data = oracle.assemble(b"", record_count=0, last_offset_delta=4, producer_id=9)
    (batch,) = read_batches(data)
    assert batch.records() == []
    assert batch.next_offset == 5


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_corrupt(codec: int) -> None:
    (batch,) = read_batches(oracle.assemble(b"x", attributes=codec))
    assert batch.codec == codec
    with pytest.raises(CorruptRecordError, match=f"codec {codec} is not known"):
        batch.records()


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_a_broken_blob_is_corrupt(codec: int) -> None:
    whole = compressed(codec, oracle.encode_records(MANY))
    (batch,) = read_batches(oracle.assemble(whole[:-3], attributes=codec))
    with pytest.raises(CorruptRecordError, match=f"{len(whole) - 3} compressed bytes"):
        batch.records()


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_a_bomb_stops_at_the_limit(codec: int) -> None:
    data = oracle.encode_batch(
        [(TIME, None, bytes(3_000_000))],
        codec=codec,
        compress=lambda part: compressed(codec, part),
    )
    (batch,) = read_batches(data, limit_bytes=2_000_000)
    with pytest.raises(CorruptRecordError, match="grow, above limit_bytes = 2000000"):
        batch.records()
    (batch,) = read_batches(data, limit_bytes=3_000_100)
    assert batch.records()[0].value == bytes(3_000_000)


def test_a_codec_that_is_not_here_is_named() -> None:
    (batch,) = read_batches(known_batches.VECTOR_C)
    codec_doors.load_for_test("lz4", None)
    try:
        with pytest.raises(UnsupportedCompressionTypeError, match="codec 3") as raised:
            batch.records()
    finally:
        assert codec_doors.load_for_test("lz4", loader.candidate_files("lz4")[0])
    assert raised.value.codec == 3  # type: ignore[attr-defined]
    assert contents(batch) == known_batches.RECORDS_A


def test_header_keys_that_are_not_utf_8_are_readable() -> None:
    record = body(*GOOD[:5], b"\x02", b"\x04h\xff", b"\x01")
    (batch,) = read_batches(oracle.assemble(record))
    assert batch.records()[0].headers == (("h\ufffd", None),)


def test_timestamps_wrap_as_in_java() -> None:
    record = body(b"\x00", oracle.varint(2**63 - 1), *GOOD[2:])
    (batch,) = read_batches(oracle.assemble(record, base_timestamp=2))
    assert batch.records()[0].timestamp == -(2**63) + 1


def test_errors_tell_where_and_pickle() -> None:
    with pytest.raises(CorruptRecordError) as raised:
        read_batches(known_batches.VECTOR_B + put(known_batches.VECTOR_A, 16, b"\x01"))
    assert "base offset 0 at byte 91" in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert str(copy) == str(raised.value)
    assert copy.position == 91
    assert copy.retriable


def test_batches_are_made_by_the_reader_alone() -> None:
    with pytest.raises(TypeError, match="read_batches"):
        RecordBatch()
    (batch,) = read_batches(known_batches.VECTOR_C)
    assert repr(batch) == "<RecordBatch offset 0, 3 records, 120 bytes, codec 3>"


def test_threads_may_read_one_batch() -> None:
    data = oracle.encode_batch(MANY, codec=4, compress=lambda part: compressed(4, part))
    (batch,) = read_batches(data)
    with ThreadPoolExecutor(4) as pool:
        assert all(records == MANY for records in pool.map(contents, [batch] * 40))
