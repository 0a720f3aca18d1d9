"""What is left of a batch: all of it, some of its records, or only its header.

Offsets, timestamps, keys, values and headers of the records that stay do not change. A batch that
loses records is written without compression.

Source: MemoryRecords.filterTo and DefaultRecordBatch of Apache Kafka; KAFKA-8522 (the delete
horizon); contract B-C4.6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from fastprod._core.bytes.crc32c import checksum
from fastprod._core.records.record_reader import RecordBatch

_HEAD: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_LEADER_EPOCH_MAGIC_AND_CRC_BYTES: Final = 9
_MAGIC: Final = 2
_CODEC_MASK: Final = 0x07
_DELETE_HORIZON: Final = 0x40


class RecordPart(NamedTuple):
    """One record of a batch, as its bytes say.

    Attributes:
        offset: in the log.
        timestamp_delta: from the batch's base timestamp.
        key: None: it has none.
        has_value: False: it is a tombstone.
        head: the byte of attributes.
        tail: what follows the distance in time, to the end.
    """

    offset: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool
    head: bytes
    tail: bytes


def delete_horizon_ms(batch: RecordBatch) -> int | None:
    """From when on tombstones and markers in a batch may go; None: that is not known yet."""
    return batch.base_timestamp if batch.attributes & _DELETE_HORIZON else None


def parts_of(batch: RecordBatch) -> list[RecordPart]:
    """The records of a batch.

    Raises:
        KafkaError: they are damaged.
    """
    body, base_offset, at = batch.body(), batch.base_offset, 0
    found = []
    for _ in range(batch.record_count):
        size, at = _varint(body, at)
        end = at + size
        head = body[at : at + 1]
        timestamp_delta, tail_at = _varint(body, at + 1)
        offset_delta, key_at = _varint(body, tail_at)
        key_bytes, value_at = _varint(body, key_at)
        key = None
        if key_bytes >= 0:
            key = body[value_at : value_at + key_bytes]
            value_at += key_bytes
        value_bytes, _ = _varint(body, value_at)
        found.append(
            RecordPart(
                base_offset + offset_delta,
                timestamp_delta,
                key,
                value_bytes >= 0,
                head,
                body[tail_at:end],
            )
        )
        at = end
    return found


def rebuilt(batch: RecordBatch, kept: Sequence[RecordPart], horizon_ms: int | None = None) -> bytes:
    """The batch with these records alone; with none, its header, for what it says of its producer.

    Args:
        batch: as it is.
        kept: records of it.
        horizon_ms: from when on tombstones and markers in it may go; None: as before.
    """
    attributes = batch.attributes & ~_CODEC_MASK
    base_timestamp = batch.base_timestamp
    shift = 0
    if not kept:
        attributes &= ~_DELETE_HORIZON
        base_timestamp = -1
    elif horizon_ms is not None:
        attributes |= _DELETE_HORIZON
        shift = base_timestamp - horizon_ms
        base_timestamp = horizon_ms
    max_timestamp = batch.max_timestamp
    if kept and not batch.is_log_append_time:
        max_timestamp = batch.base_timestamp + max(each.timestamp_delta for each in kept)
    checked = bytearray(
        _CHECKED.pack(
            attributes,
            batch.last_offset_delta,
            base_timestamp,
            max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(kept),
        )
    )
    for each in kept:
        delta = _written(each.timestamp_delta + shift)
        checked += _written(len(each.head) + len(delta) + len(each.tail))
        checked += each.head + delta + each.tail
    length = _LEADER_EPOCH_MAGIC_AND_CRC_BYTES + len(checked)
    epoch, crc = batch.partition_leader_epoch, checksum(checked)
    return _HEAD.pack(batch.base_offset, length, epoch, _MAGIC, crc) + bytes(checked)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and the position behind it; the batch was looked at when it came."""
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _written(value: int) -> bytes:
    left = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
