"""Snapshots of the producers in Kafka's format (B-C6.7): the last batch of each, what it has open,
and a CRC.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from fastprod._core.bytes.crc32c import checksum
from fastprod.broker.log.producer_states import ProducedBatch, ProducerState, ProducerStates

_VERSION: Final = 1
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first
# offset of the open transaction.
_ENTRY: Final = Struct(">qhiqiqiq")
_SEQUENCES: Final = 2**31


class SnapshotError(ValueError):
    """The bytes are no snapshot, or it is damaged."""


def encode_snapshot(states: ProducerStates) -> bytes:
    """The file's bytes."""
    entries = []
    for producer_id, state in states.items():
        last = state.batches[-1] if state.batches else None
        entries.append(
            _ENTRY.pack(
                producer_id,
                state.epoch,
                state.last_sequence,
                -1 if last is None else last.last_offset,
                0 if last is None else last.last_offset - last.base_offset,
                state.timestamp,
                state.coordinator_epoch,
                state.first_offset,
            )
        )
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, checksum(body)) + body


def decode_snapshot(data: bytes, states: ProducerStates, now_ms: int) -> None:
    """Put the producers of a snapshot into `states`; their silence is counted from now on.

    Raises:
        SnapshotError: not a snapshot, or damaged; nothing was put.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise SnapshotError(f"a snapshot of {len(data)} bytes is too short")
    version, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if version != _VERSION:
        raise SnapshotError(f"snapshot version {version}; only {_VERSION} is known")
    if checksum(body) != crc:
        raise SnapshotError(f"the CRC-32C of a snapshot is {checksum(body):08x}, not {crc:08x}")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"a snapshot of {count} producers has {len(data)} bytes")
    for entry in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first = entry
        state = ProducerState(epoch, now_ms)
        state.timestamp, state.coordinator_epoch, state.first_offset = timestamp, coordinator, first
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) % _SEQUENCES
            state.batches.append(
                ProducedBatch(
                    first_sequence, last_sequence, last_offset - delta, last_offset, timestamp
                )
            )
        states.restore(producer_id, state)
    states.restored()
