"""Targets that read record batches and what they are made of: native parsers of both sides."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

import crc32c

from fastprod._core.log import batch_scanner
from fastprod._core.log.batch_validator import VALIDATE_FULL, InvalidBatch, inspect, validate
from fastprod._core.records.record_reader import read_batches
from fastprod._core.testing.bytes_doors import uvarint_decode_for_test, varint_decode_for_test
from fastprod._core.testing.codec_doors import compress_for_test, decompress_for_test
from fastprod.broker.coordinator.group import group_records
from fastprod.broker.coordinator.transaction import transaction_records
from fastprod.broker.log.producer_snapshot import SnapshotError, decode_snapshot, encode_snapshot
from fastprod.broker.log.producer_states import ProducedBatch, ProducerState, ProducerStates
from fastprod.errors import KafkaError
from fastprod.protocol.field_types import SchemaError
from support.fuzz.target import Target
from support.oracle.record_batch import HEADER_SIZE, LOG_OVERHEAD, encode_batch

LIMIT_BYTES = 1 << 16
CODECS = ("gzip", "snappy", "lz4", "zstd")
_LEVELS = {"gzip": 6, "snappy": 0, "lz4": 1, "zstd": 3}
_LENGTH_AT, _MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT = 8, 16, 17, 21
_MAGIC = 2
_SNAPSHOT_VERSION, _SNAPSHOT_HEAD_BYTES = 1, 6


def mended(data: bytes) -> bytearray:
    """`data` with the length, magic and CRC of a sound batch, so that its records are looked at."""
    batch = bytearray(data.ljust(HEADER_SIZE, b"\0"))
    struct.pack_into(">i", batch, _LENGTH_AT, len(batch) - LOG_OVERHEAD)
    batch[_MAGIC_AT] = _MAGIC
    struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return batch


def _records(data: bytes) -> None:
    for batch in read_batches(bytes(mended(data)), limit_bytes=LIMIT_BYTES):
        batch.end_marker()
        batch.records()


def _batches(data: bytes) -> None:
    for batch in read_batches(data, limit_bytes=LIMIT_BYTES):
        batch.records()


def _validated(data: bytes) -> None:
    batch = mended(data)
    for key_required in (False, True):
        validate(batch, VALIDATE_FULL, -1, LIMIT_BYTES, key_required=key_required, now_ms=1_000)


def _log(data: bytes) -> None:
    """Two batches of a log, the second as it comes."""
    log = bytes(mended(data[: len(data) // 2])) + data[len(data) // 2 :]
    end = len(log)
    batch_scanner.find_offset(log, 0, end, 3)
    batch_scanner.whole_batches(log, 0, end, end // 2)
    batch_scanner.batch_size(log, end // 3)
    inspect(log, 0)
    inspect(log, end // 2)
    batch_scanner.find_timestamp(log, 0, end, 5, 0, LIMIT_BYTES)
    batch_scanner.find_largest_timestamp(log, 0, end, 0, LIMIT_BYTES)


def _varints(data: bytes) -> None:
    for most in (5, 10):
        varint_decode_for_test(data, most)
        uvarint_decode_for_test(data, most)


def _decompressed(codec: str, data: bytes) -> None:
    found = decompress_for_test(codec, data, LIMIT_BYTES)
    assert len(found) <= LIMIT_BYTES


def _snapshot(data: bytes) -> None:
    """With the version and the CRC of a sound one."""
    head = struct.pack(">hI", _SNAPSHOT_VERSION, crc32c.crc32c(data))
    decode_snapshot(head + data, ProducerStates(5, 1_000), 0)


def _internal(data: bytes) -> None:
    """A key and a value of the broker's own topics."""
    half = len(data) // 2
    for read, part in (
        (group_records.read_key, data[:half]),
        (group_records.read_offset, data[half:]),
        (group_records.read_group, data[half:]),
        (transaction_records.read_transactional_id, data[:half]),
        (transaction_records.read_transaction, data[half:]),
    ):
        _read(read, part)


def _read(read: Callable[[bytes], object], data: bytes) -> None:
    try:
        read(data)
    except SchemaError:
        return


def _seed_batches() -> tuple[bytes, ...]:
    records = [(1_000 + number, b"k", b"v" * number, (("h", b"x"),)) for number in range(4)]
    found = [encode_batch(records), encode_batch(records, transactional=True, producer_id=1)]
    found.append(encode_batch([(1, b"\0\0\0\1", b"\0\0\0\0\0\1")], control=True))
    for number, codec in enumerate(CODECS, 1):

        def pack(part: bytes, codec: str = codec) -> bytes:
            return compress_for_test(codec, _LEVELS[codec], [part])

        found.append(encode_batch(records, codec=number, compress=pack))
    return tuple(found)


def _seed_snapshot() -> bytes:
    states = ProducerStates(5, 1_000)
    state = ProducerState(3, 0)
    state.batches.append(ProducedBatch(7, 9, 20, 22, 1_000))
    states.restore(1, state)
    return encode_snapshot(states)[_SNAPSHOT_HEAD_BYTES:]


def record_targets() -> list[Target]:
    """Each parser of records once."""
    batches = _seed_batches()
    text = b"some text, some text, some more text" * 3
    packed = {each: compress_for_test(each, _LEVELS[each], [text]) for each in CODECS}
    return [
        Target("records", _records, (KafkaError,), batches, is_native=True),
        Target("batches", _batches, (KafkaError,), batches, is_native=True),
        Target("validated", _validated, (InvalidBatch,), batches, is_native=True),
        Target("log", _log, (KafkaError,), tuple(each * 2 for each in batches), is_native=True),
        Target("varints", _varints, (), (b"\x80\x80\x01", b"\xff" * 10), is_native=True),
        *(
            Target(
                codec,
                functools.partial(_decompressed, codec),
                (ValueError, KafkaError),
                (packed[codec],),
                is_native=True,
            )
            for codec in CODECS
        ),
        Target("producer-snapshot", _snapshot, (SnapshotError,), (_seed_snapshot(),)),
        Target("internal-records", _internal, (), (b"\0\1\0\1g\0\1t\0\0\0\0" * 2,)),
    ]
