"""Record batches v2 written and read slowly, one field after the other (contract P-E).

Nothing here is shared with the code under test: varints by divmod, CRC-32C by the package crc32c,
fields by `int.to_bytes`. Compression is the caller's: pass `compress` or `decompress`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c as crc32c

HEADER_SIZE = 61
LOG_OVERHEAD = 12
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

Headers = tuple[tuple[str, bytes | None], ...]
Transform = Callable[[bytes], bytes]


class BatchError(ValueError):
    """The bytes are not one sound record batch v2."""


class Record(NamedTuple):
    """One record; a plain tuple of the same four things is as good."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


AnyRecord = (
    Record
    | tuple[int, bytes | None, bytes | None]
    | tuple[int, bytes | None, bytes | None, Headers]
)


@dataclass(frozen=True)
class Batch:
    """A decoded batch: every header field, the records, and their absolute offsets."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: list[Record]
    offsets: list[int]

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


def varint(value: int) -> bytes:
    """Zigzag varint of a 32 or 64 bit value (P-E.3.1)."""
    unsigned = 2 * value if value >= 0 else -2 * value - 1
    groups = []
    while True:
        unsigned, low = divmod(unsigned, 128)
        if not unsigned:
            groups.append(low)
            return bytes(groups)
        groups.append(low + 128)


def wrap_int64(value: int) -> int:
    """`value` as a two's complement 64-bit number keeps it."""
    return (value + 2**63) % 2**64 - 2**63


def _optional(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_headers(headers: Headers) -> bytes:
    """The headers of a record, their count first (P-E.3)."""
    out = varint(len(headers))
    for name, value in headers:
        raw = name.encode()
        out += varint(len(raw)) + raw + _optional(value)
    return out


def encode_record(record: AnyRecord, offset_delta: int, base_timestamp: int) -> bytes:
    """One record with its length prefix (P-E.3)."""
    timestamp, key, value, headers = Record(*record)
    body = (
        b"\x00"
        + varint(wrap_int64(timestamp - base_timestamp))
        + varint(offset_delta)
        + _optional(key)
        + _optional(value)
        + encode_headers(headers)
    )
    return varint(len(body)) + body


def encode_records(
    records: Sequence[AnyRecord],
    *,
    base_timestamp: int | None = None,
    offset_deltas: Iterable[int] | None = None,
) -> bytes:
    """The records part of a batch, uncompressed. The base timestamp is the first record's."""
    if base_timestamp is None:
        base_timestamp = records[0][0] if records else -1
    deltas = range(len(records)) if offset_deltas is None else offset_deltas
    return b"".join(
        encode_record(record, delta, base_timestamp)
        for record, delta in zip(records, deltas, strict=True)
    )


def encode_batch(
    records: Sequence[AnyRecord],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    codec: int = 0,
    compress: Transform | None = None,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    record_count: int | None = None,
) -> bytes:
    """One batch (P-E.1). The last five default to what a producer writes; give them to differ."""
    if base_timestamp is None:
        base_timestamp = records[0][0] if records else -1
    if max_timestamp is None:
        max_timestamp = max((record[0] for record in records), default=-1)
    if last_offset_delta is None:
        last_offset_delta = offset_deltas[-1] if offset_deltas else len(records) - 1
    part = encode_records(records, base_timestamp=base_timestamp, offset_deltas=offset_deltas)
    if compress is not None:
        part = compress(part)
    elif codec:
        raise ValueError(f"codec {codec} needs `compress`")
    attributes = (
        codec
        | (LOG_APPEND_TIME if log_append_time else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )
    return assemble(
        part,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records) if record_count is None else record_count,
    )


def assemble(
    part: bytes,
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int = 0,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int = 1,
) -> bytes:
    """A batch around any records part, with right length and CRC: good for breaking things."""
    checked = (
        attributes.to_bytes(2, "big", signed=True)
        + last_offset_delta.to_bytes(4, "big", signed=True)
        + base_timestamp.to_bytes(8, "big", signed=True)
        + max_timestamp.to_bytes(8, "big", signed=True)
        + producer_id.to_bytes(8, "big", signed=True)
        + producer_epoch.to_bytes(2, "big", signed=True)
        + base_sequence.to_bytes(4, "big", signed=True)
        + record_count.to_bytes(4, "big", signed=True)
        + part
    )
    return (
        base_offset.to_bytes(8, "big", signed=True)
        + (9 + len(checked)).to_bytes(4, "big", signed=True)
        + partition_leader_epoch.to_bytes(4, "big", signed=True)
        + magic.to_bytes(1, "big", signed=True)
        + crc32c(checked).to_bytes(4, "big")
        + checked
    )


class _Cursor:
    """Bytes taken from the front; taking too many is an error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size < 0 or size > self.left:
            raise BatchError(f"{size} bytes wanted, {self.left} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def varint(self, max_bytes: int) -> int:
        unsigned, weight = 0, 1
        for _ in range(max_bytes):
            byte = self.take(1)[0]
            unsigned += (byte % 128) * weight
            weight *= 128
            if byte < 128:
                if unsigned >= 2 ** (32 if max_bytes == 5 else 64):
                    raise BatchError(f"varint {unsigned} is too large")
                half, odd = divmod(unsigned, 2)
                return -half - 1 if odd else half
        raise BatchError(f"varint of more than {max_bytes} bytes")

    def optional(self) -> bytes | None:
        size = self.varint(5)
        return None if size == -1 else self.take(size)


def _decode_record(cursor: _Cursor, base_timestamp: int) -> tuple[int, Record]:
    body = _Cursor(cursor.take(cursor.varint(5)))
    body.take(1)
    timestamp = wrap_int64(base_timestamp + body.varint(10))
    offset_delta = body.varint(5)
    key = body.optional()
    value = body.optional()
    count = body.varint(5)
    if count < 0 or count > body.left:
        raise BatchError(f"{count} headers in {body.left} bytes")
    headers = []
    for _ in range(count):
        name = body.take(body.varint(5)).decode(errors="replace")
        headers.append((name, body.optional()))
    if body.left:
        raise BatchError(f"{body.left} bytes left in a record")
    return offset_delta, Record(timestamp, key, value, tuple(headers))


def decode_batch(data: bytes, *, decompress: Transform | None = None) -> Batch:
    """Decode exactly one batch; raises BatchError for anything else (P-E.1, P-E.3.4, P-E.3.5)."""
    cursor = _Cursor(bytes(data))
    base_offset = cursor.number(8)
    batch_length = cursor.number(4)
    if batch_length != cursor.left or batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise BatchError(f"batchLength {batch_length}, {cursor.left} bytes follow")
    epoch = cursor.number(4)
    magic = cursor.number(1)
    if magic != 2:
        raise BatchError(f"magic {magic}")
    crc = cursor.number(4, signed=False)
    actual = crc32c(cursor.data[cursor.at :])
    if crc != actual:
        raise BatchError(f"CRC {crc:08x}, computed {actual:08x}")
    attributes = cursor.number(2)
    last_offset_delta = cursor.number(4)
    base_timestamp = cursor.number(8)
    max_timestamp = cursor.number(8)
    producer_id = cursor.number(8)
    producer_epoch = cursor.number(2)
    base_sequence = cursor.number(4)
    count = cursor.number(4)
    part = cursor.take(cursor.left)
    if attributes & CODEC_MASK:
        if decompress is None:
            raise ValueError(f"codec {attributes & CODEC_MASK} needs `decompress`")
        part = decompress(part)
    records, offsets = _decode_records(part, count, base_offset, base_timestamp)
    if attributes & LOG_APPEND_TIME:
        records = [record._replace(timestamp=max_timestamp) for record in records]
    return Batch(
        base_offset,
        batch_length,
        epoch,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records,
        offsets,
    )


def _decode_records(
    part: bytes, count: int, base_offset: int, base_timestamp: int
) -> tuple[list[Record], list[int]]:
    if count < 0:
        raise BatchError(f"{count} records")
    records, offsets = [], []
    cursor = _Cursor(part)
    for _ in range(count):
        delta, record = _decode_record(cursor, base_timestamp)
        records.append(record)
        offsets.append(wrap_int64(base_offset + delta))
    if cursor.left:
        raise BatchError(f"{cursor.left} bytes after {count} records")
    return records, offsets


def decode_batches(data: bytes, *, decompress: Transform | None = None) -> list[Batch]:
    """Decode batches one after the other; an incomplete one at the end is ignored."""
    batches = []
    at = 0
    while len(data) - at >= LOG_OVERHEAD:
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < HEADER_SIZE:
            raise BatchError(f"batchLength {size - LOG_OVERHEAD}")
        if size > len(data) - at:
            break
        batches.append(decode_batch(data[at : at + size], decompress=decompress))
        at += size
    return batches
