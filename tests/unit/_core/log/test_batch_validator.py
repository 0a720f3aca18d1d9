"""What a log refuses, row by row (contract B-D1), and what it writes into a batch (B-C2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fastprod._core.log.batch_validator import (
    VALIDATE_CRC,
    VALIDATE_FULL,
    VALIDATE_NONE,
    BatchInfo,
    InvalidBatch,
    inspect,
    stamp,
    validate,
)
from support.broker.log_batches import CODECS, TIME, batch, encoded
from support.oracle import record_batch as oracle
from support.records import known_batches

CORRUPT, TOO_LARGE, TIMESTAMP, COMPRESSION, RECORD = 2, 10, 32, 76, 87
HOUR_MS = 3_600_000


def look(data: Any, mode: int = VALIDATE_FULL, **settings: Any) -> BatchInfo:
    return validate(
        data,
        mode,
        settings.pop("max_message_bytes", 1_048_588),
        settings.pop("codec_limit", 1 << 20),
        now_ms=TIME,
        **{"after_max_ms": HOUR_MS, **settings},
    )


def patched(at: int, value: int, size: int, data: bytearray | None = None) -> bytearray:
    """A batch with other bytes at `at`, and the CRC made right again."""
    data = batch(3) if data is None else data
    data[at : at + size] = value.to_bytes(size, "big", signed=True)
    data[17:21] = oracle.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


def flipped(at: int) -> bytearray:
    data = batch(3)
    data[at] ^= 1
    return data


def compressed_garbage() -> bytearray:
    return bytearray(oracle.assemble(b"no gzip at all", attributes=1, record_count=1))


SIXTY_KEYLESS: list[Any] = [(TIME, None if i % 2 else b"k", b"v") for i in range(120)]

# What is wrong, Kafka's code, indexes named in record_errors, a part of the message.
TABLE: list[tuple[str, Callable[[], tuple[bytearray, dict[str, Any]]], int, list[int], str]] = [
    ("nothing at all", lambda: (bytearray(), {}), RECORD, [], "0 bytes are not one"),
    ("half a batch", lambda: (batch()[:40], {}), RECORD, [], "40 bytes are not one"),
    ("half the header", lambda: (batch()[:14], {}), RECORD, [], "14 bytes are not one"),
    ("two batches", lambda: (batch() + batch(), {}), RECORD, [], "follow after a batch"),
    ("magic 1", lambda: (patched(16, 1, 1), {}), RECORD, [], "magic is 1"),
    ("magic 0", lambda: (patched(16, 0, 1), {}), RECORD, [], "magic is 0"),
    ("magic 3", lambda: (patched(16, 3, 1), {}), CORRUPT, [], "magic is 3"),
    ("length 0", lambda: (patched(8, 0, 4), {}), CORRUPT, [], "batchLength is 0"),
    ("length -1", lambda: (patched(8, -1, 4), {}), CORRUPT, [], "batchLength is -1"),
    ("length 48", lambda: (patched(8, 48, 4), {}), CORRUPT, [], "batchLength is 48"),
    ("a flipped value", lambda: (flipped(80), {}), CORRUPT, [], "CRC-32C"),
    ("a flipped count", lambda: (flipped(60), {}), CORRUPT, [], "CRC-32C"),
    ("not gzip", lambda: (compressed_garbage(), {}), CORRUPT, [], "do not decompress"),
    ("codec 5", lambda: (patched(21, 5, 2), {}), COMPRESSION, [], "codec 5"),
    (
        "larger than allowed",
        lambda: (batch(), {"max_message_bytes": len(batch()) - 1}),
        TOO_LARGE,
        [],
        f"max.message.bytes = {len(batch()) - 1}",
    ),
    (
        "grows without bound",
        lambda: (batch(value=bytes(100_000), codec="gzip"), {"codec_limit": 50_000}),
        TOO_LARGE,
        [],
        "50000",
    ),
    ("base offset 7", lambda: (patched(0, 7, 8), {}), RECORD, [], "this one says 7"),
    ("count 0", lambda: (patched(57, 0, 4, patched(23, -1, 4)), {}), RECORD, [], "sCount is 0"),
    ("count -1", lambda: (patched(57, -1, 4), {}), RECORD, [], "recordsCount is -1"),
    ("last delta 7", lambda: (patched(23, 7, 4), {}), RECORD, [], "lastOffsetDelta is 7"),
    (
        "count 2 of 3",
        lambda: (patched(57, 2, 4, patched(23, 1, 4)), {}),
        RECORD,
        [],
        "follow after the last",
    ),
    (
        "count 4 of 3",
        lambda: (patched(57, 4, 4, patched(23, 3, 4)), {}),
        RECORD,
        [],
        "end after 3",
    ),
    (
        "inner offsets 0, 2, 1",
        lambda: (batch(3, offset_deltas=[0, 2, 1], last_offset_delta=2), {}),
        RECORD,
        [1, 2],
        "offset delta 2, expected 1",
    ),
    ("control", lambda: (batch(control=True), {}), RECORD, [], "control"),
    (
        "no epoch",
        lambda: (batch(producer_id=9, producer_epoch=-1, base_sequence=0), {}),
        RECORD,
        [],
        "epoch -1 and base sequence 0",
    ),
    (
        "no sequence",
        lambda: (batch(producer_id=9, producer_epoch=0, base_sequence=-1), {}),
        RECORD,
        [],
        "epoch 0 and base sequence -1",
    ),
    (
        "no key and compacted",
        lambda: (
            encoded([(TIME, b"k", b"v"), (TIME, None, b"v"), (TIME, b"", b"v")]),
            {"key_required": True},
        ),
        RECORD,
        [1],
        "the topic is compacted",
    ),
    (
        "no key and compacted, compressed",
        lambda: (encoded(SIXTY_KEYLESS, "lz4"), {"key_required": True}),
        RECORD,
        list(range(1, 120, 2)),
        "60 of 120 records",
    ),
    (
        "too far ahead",
        lambda: (encoded([(TIME, None, b""), (TIME + HOUR_MS + 1, None, b"")]), {}),
        TIMESTAMP,
        [1],
        f"{TIME + HOUR_MS + 1} is after {TIME + HOUR_MS}",
    ),
    (
        "too old",
        lambda: (batch(2, timestamp=TIME - 11), {"before_max_ms": 10}),
        TIMESTAMP,
        [0, 1],
        f"{TIME - 11} is before {TIME - 10}",
    ),
    (
        "no key, and another too old",
        lambda: (
            encoded([(TIME, None, b""), (TIME - 11, b"k", b"")]),
            {"before_max_ms": 10, "key_required": True},
        ),
        TIMESTAMP,
        [0, 1],
        "2 of 2",
    ),
    ("LogAppendTime", lambda: (batch(log_append_time=True), {}), TIMESTAMP, [0], "LogAppendTime"),
]


@pytest.mark.parametrize(
    ("make", "code", "indexes", "said"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_each_row_of_the_table_is_refused_with_its_code(
    make: Callable[[], tuple[bytearray, dict[str, Any]]], code: int, indexes: list[int], said: str
) -> None:
    """LogValidatorTest, B-D1.2, B-C2.4: code, record_errors and a text with the numbers. B-D1
    INVALID_RECORD-batches, INVALID_RECORD-magic, INVALID_RECORD-offset, INVALID_RECORD-count,
    INVALID_RECORD-control, INVALID_RECORD-producer, INVALID_RECORD-key, CORRUPT_MESSAGE,
    MESSAGE_TOO_LARGE and INVALID_TIMESTAMP.
    """
    data, settings = make()
    before = bytes(data)
    with pytest.raises(InvalidBatch) as caught:
        look(data, **settings)
    error = caught.value
    assert (error.error_code, [index for index, _ in error.record_errors]) == (code, indexes)
    assert said in error.message
    assert str(error) == error.message
    assert all(text for _, text in error.record_errors)
    assert data == before


@pytest.mark.parametrize("codec", CODECS)
def test_a_sound_batch_gives_its_header_and_the_record_with_the_largest_timestamp(
    codec: str,
) -> None:
    records: list[Any] = [(TIME + ms, b"k", b"v") for ms in (0, 5, 9, -3, 9)]
    data = encoded(records, codec, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2)
    info = look(data)
    assert (info.record_count, info.last_offset_delta, info.codec) == (5, 4, CODECS.index(codec))
    assert (info.base_timestamp, info.max_timestamp) == (TIME, TIME + 9)
    assert info.max_timestamp_delta == 2
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (7, 2, 2**31 - 2)
    assert info.last_sequence == 2
    assert (info.size_bytes, info.base_offset, info.last_offset) == (len(data), 0, 4)
    assert [info.is_transactional, info.is_control, info.is_log_append_time] == [False] * 3
    assert "5 records" in repr(info)


def test_the_published_vectors_are_accepted_but_for_the_marker() -> None:
    for vector in (known_batches.VECTOR_A, known_batches.VECTOR_B, known_batches.VECTOR_C):
        assert look(vector).size_bytes == len(vector)
    assert look(known_batches.VECTOR_B).is_transactional
    with pytest.raises(InvalidBatch, match="control"):
        look(known_batches.VECTOR_D)


def test_records_without_a_timestamp_are_at_no_time() -> None:
    info = look(batch(2, timestamp=-1), before_max_ms=10)
    assert (info.max_timestamp, info.max_timestamp_delta) == (-1, -1)


def test_a_log_that_stamps_records_takes_any_timestamp() -> None:
    assert look(batch(timestamp=5), before_max_ms=0, log_append_time=True).max_timestamp == 5


@pytest.mark.parametrize(
    ("mode", "accepted"),
    [
        (VALIDATE_FULL, []),
        (VALIDATE_CRC, ["no key"]),
        (VALIDATE_NONE, ["no key", "flipped"]),
    ],
)
def test_a_mode_looks_at_no_more_than_it_says(mode: int, accepted: list[str]) -> None:
    """B-D1.3."""
    wrong = {"no key": batch(key=None), "flipped": flipped(80), "delta": patched(23, 7, 4)}
    passed = []
    for name, data in wrong.items():
        try:
            info = look(data, mode, key_required=True)
        except InvalidBatch:
            continue
        passed.append(name)
        assert info.max_timestamp_delta == -1
    assert passed == accepted


def test_a_mode_without_a_walk_refuses_what_the_header_shows() -> None:
    for mode in (VALIDATE_CRC, VALIDATE_NONE):
        with pytest.raises(InvalidBatch, match="codec 6"):
            look(patched(21, 6, 2), mode)


def test_no_more_than_a_hundred_records_are_named() -> None:
    with pytest.raises(InvalidBatch, match="500 of 500 records") as caught:
        look(batch(500, key=None), key_required=True)
    assert len(caught.value.record_errors) == 100


@pytest.mark.parametrize(
    "settings", [{"mode": 3}, {"mode": -1}, {"before_max_ms": -1}, {"after_max_ms": -1}]
)
def test_a_setting_out_of_range_is_told(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="mode is 0, 1 or 2"):
        look(batch(), **settings)


def test_stamping_changes_twelve_bytes_and_leaves_the_crc() -> None:
    """B-C2.1."""
    data = batch(3)
    before = bytes(data)
    stamp(data, 1 << 40, 6, TIME)
    assert data[8:12] == before[8:12]
    assert data[16:] == before[16:]
    decoded = oracle.decode_batch(bytes(data))
    assert (decoded.base_offset, decoded.partition_leader_epoch) == (1 << 40, 6)


@pytest.mark.parametrize("count", [1, 500])
def test_append_time_goes_into_the_header_and_the_crc_is_right_again(count: int) -> None:
    """B-C2.2, B-G4.22: every record then has that timestamp, the deltas stay."""
    data = batch(count)
    stamp(data, 3, 0, TIME + 77, log_append_time=True)
    decoded = oracle.decode_batch(bytes(data))
    assert decoded.is_log_append_time
    assert {record.timestamp for record in decoded.records} == {TIME + 77}
    assert inspect(data, 0) is not None


def test_a_header_that_claims_another_maximum_is_put_right() -> None:
    """LogValidator sets the maximum that it saw."""
    data = batch(2, max_timestamp=TIME + 999)
    info = look(data)
    assert info.max_timestamp == TIME
    stamp(data, 0, 0, info.max_timestamp)
    assert oracle.decode_batch(bytes(data)).max_timestamp == TIME


def test_only_a_writable_whole_batch_is_stamped() -> None:
    with pytest.raises(BufferError):
        stamp(bytes(batch()), 0, 0, TIME)
    for wrong in (batch()[:-1], batch() + b"x", bytearray()):
        with pytest.raises(ValueError, match="not one record batch"):
            stamp(wrong, 0, 0, TIME)


def test_inspect_finds_whole_sound_batches_only() -> None:
    """B-C8.3, B-C8.4: cut at each byte, zeros, a length past the end, a flipped bit."""
    data = bytes(batch(2))
    found = inspect(b"12" + data + b"34", 2)
    assert found is not None
    assert found.size_bytes == len(data)
    assert all(inspect(data[:cut], 0) is None for cut in range(len(data)))
    assert inspect(bytes(200), 0) is None
    assert inspect(data, len(data)) is None
    assert inspect(data, -1) is None
    assert inspect(data, len(data) + 1) is None
    assert inspect(flipped(80), 0) is None
    assert inspect(flipped(80), 0, False) is not None


def test_many_threads_validate_at_once() -> None:
    large = batch(3000, value=b"x" * 100)
    results: list[int] = []

    def work() -> None:
        results.extend(look(large).record_count for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [3000] * 80


def test_a_batch_info_is_not_made_by_hand() -> None:
    with pytest.raises(TypeError, match="validate"):
        BatchInfo()
