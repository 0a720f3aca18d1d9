"""Produce and the partitions of Metadata in bytes: what a light server does thousands of times."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

VERSION: Final = 12
"""The last that has topics by name."""

_PARTITION = struct.Struct(">ihqqqBB")
_LEADER_TAG = struct.Struct(">BBBiiB")
_METADATA = struct.Struct(">hiiiBiBiBB")
_SEQUENCE_AND_COUNT = struct.Struct(">ii")
_SEQUENCE_AT = 53


class Batch(NamedTuple):
    """The head of one batch; sequence -1: without."""

    topic: str
    partition: int
    record_count: int
    sequence: int


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def uvarint(value: int) -> bytes:
    """Encoded."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def batches(frame: bytes, at: int) -> Iterator[Batch]:
    """The batches of a request whose header ends at `at`."""
    size, at = _uvarint(frame, at)  # transactional id
    at += max(0, size - 1) + 6
    topics, at = _uvarint(frame, at)
    for _ in range(topics - 1):
        size, at = _uvarint(frame, at)
        topic = frame[at : at + size - 1].decode()
        partitions, at = _uvarint(frame, at + size - 1)
        for _ in range(partitions - 1):
            partition = int.from_bytes(frame[at : at + 4], "big")
            size, at = _uvarint(frame, at + 4)
            sequence, count = _SEQUENCE_AND_COUNT.unpack_from(frame, at + _SEQUENCE_AT)
            yield Batch(topic, partition, count, sequence)
            at += size  # the size is one more than it is, the tag section one byte
        at += 1


def partition(index: int, code: int, offset: int, hint: tuple[int, int] | None) -> bytes:
    """One partition of an answer.

    Args:
        index: the partition.
        code: Kafka's error code.
        offset: the first record's.
        hint: the leader's id and epoch (KIP-951).
    """
    head = _PARTITION.pack(index, code, offset, -1, 0 if code == 0 else -1, 1, 0)
    if hint is None:
        return head + b"\0"
    return head + _LEADER_TAG.pack(1, 0, 9, *hint, 0)


def answer(correlation_id: int, topics: Mapping[str, list[bytes]]) -> bytes:
    """The whole frame."""
    parts = [struct.pack(">iB", correlation_id, 0), uvarint(len(topics) + 1)]
    for topic, partitions in topics.items():
        name = topic.encode()
        parts += [uvarint(len(name) + 1), name, uvarint(len(partitions) + 1), *partitions, b"\0"]
    parts.append(bytes(5))
    frame = b"".join(parts)
    return struct.pack(">i", len(frame)) + frame


def partition_metadata(index: int, leader: int, epoch: int) -> bytes:
    """One partition of a Metadata answer, with one replica."""
    return _METADATA.pack(0, index, leader, epoch, 2, leader, 2, leader, 1, 0)
