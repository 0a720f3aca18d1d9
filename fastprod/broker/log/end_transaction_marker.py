"""The control batch that ends a transaction in a partition (B-C7.2, EndTransactionMarker)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from fastprod._core.records.record_reader import read_batches
from fastprod.broker.log.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    LogEntry,
    Producer,
    encode_batch,
)
from fastprod.broker.log.segments.segment import Segment

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ABORT, _COMMIT = 0, 1
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
_LARGEST_BATCH_BYTES: Final = 2**31 - 1


class EndTransactionMarker(NamedTuple):
    """How a transaction ends.

    Attributes:
        producer: whose; a transaction of an older epoch ends, too.
        coordinator_epoch: of the coordinator that says so.
        is_commit: False: it is aborted.
        has_own_epoch: its epoch is one more than that of the records: one that comes late, while
            the next transaction is open, is known by that (KIP-890, KIP-1228).
    """

    producer: Producer
    coordinator_epoch: int
    is_commit: bool
    has_own_epoch: bool = False


def encode_marker(marker: EndTransactionMarker, timestamp_ms: int) -> bytearray:
    """Return the batch, as `encode_batch` does."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    entry = LogEntry(key, _VALUE.pack(_VERSION, marker.coordinator_epoch))
    return encode_batch([entry], timestamp_ms, marker.producer, TRANSACTIONAL | CONTROL)


def read_marker(segment: Segment, offset: int) -> EndTransactionMarker | None:
    """The marker at an offset; None: a control batch of another kind.

    Raises:
        OSError: it cannot be read.
        KafkaError: it is damaged.
    """
    for part in segment.read(offset, 0, True, offset + 1) or ():
        return marker_of(part)
    return None


def marker_of(batch: Buffer) -> EndTransactionMarker | None:
    """The marker that a control batch is; None: it is one of another kind.

    Raises:
        KafkaError: it is damaged.
    """
    for each in read_batches(batch, limit_bytes=_LARGEST_BATCH_BYTES):
        found = each.end_marker()
        if found is not None:
            return EndTransactionMarker(
                Producer(each.producer_id, each.producer_epoch),
                found.coordinator_epoch,
                found.kind == _COMMIT,
            )
    return None
