"""Writes the batches that the broker itself adds to logs: a coordinator's, and markers (B-C2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fastprod._core.bytes.crc32c import checksum

_HEAD: Final = struct.Struct(">qiibI")
# From the attributes on: what the checksum covers.
_CHECKED: Final = struct.Struct(">hiqqqhii")
_LEADER_EPOCH_MAGIC_AND_CRC_BYTES: Final = 9
_MAGIC: Final = 2
_NO_SEQUENCE: Final = -1
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
"""Attributes of a batch."""

# Of a record, besides key and value, at most.
_RECORD_OVERHEAD_BYTES: Final = 32


class LogEntry(NamedTuple):
    """One record; without a value it removes what an earlier one of its key said."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """A producer id and its epoch; -1: none."""

    id: int
    epoch: int


NO_PRODUCER: Final = Producer(-1, -1)


def encode_batch(
    entries: Sequence[LogEntry],
    timestamp_ms: int,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> bytearray:
    """Return one batch of these records, all of that time; a log may stamp it.

    Args:
        entries: one or more.
        timestamp_ms: milliseconds since 1970.
        producer: whose transaction they belong to; they have no sequence.
        attributes: of the batch.
    """
    last = len(entries) - 1
    times = timestamp_ms, timestamp_ms
    checked = bytearray(
        _CHECKED.pack(attributes, last, *times, *producer, _NO_SEQUENCE, len(entries))
    )
    for offset_delta, entry in enumerate(entries):
        # Attributes and the distance in time are 0.
        record = bytearray(b"\0\0")
        _write_varint(record, offset_delta)
        _write_bytes(record, entry.key)
        _write_bytes(record, entry.value)
        # No headers.
        record.append(0)
        _write_varint(checked, len(record))
        checked += record
    batch = bytearray(
        _HEAD.pack(
            0,
            _LEADER_EPOCH_MAGIC_AND_CRC_BYTES + len(checked),
            -1,
            _MAGIC,
            checksum(checked),
        )
    )
    batch += checked
    return batch


def split(entries: Sequence[LogEntry], most_bytes: int) -> Iterator[Sequence[LogEntry]]:
    """Cut `entries`, in order, so that the batch of each part takes at most so much.

    One that is larger by itself is a part of its own.
    """
    start = size_bytes = 0
    for at, (key, value) in enumerate(entries):
        entry_bytes = len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES
        if at > start and size_bytes + entry_bytes > most_bytes:
            yield entries[start:at]
            start, size_bytes = at, 0
        size_bytes += entry_bytes
    if start < len(entries):
        yield entries[start:]


def _write_varint(out: bytearray, value: int) -> None:
    """Append a number as a zigzag varint."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        _write_varint(out, -1)
    else:
        _write_varint(out, len(value))
        out += value
