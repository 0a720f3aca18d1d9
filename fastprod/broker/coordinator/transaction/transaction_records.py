"""What __transaction_state holds, in the format of Apache Kafka.

Source: TransactionLogKey and TransactionLogValue of Kafka 4.x; `kafka-dump-log
--transaction-log-decoder` reads them. A key or a value begins with its version.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TopicPartition,
    TransactionState,
    TxnTransitMetadata,
)
from fastprod.broker.log.record_batch import LogEntry
from fastprod.protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Schema,
    SchemaError,
    field,
    message,
)

_VERSION: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1
# From this one on values have tagged fields; those that are not known here are skipped.
_FLEXIBLE_FROM: Final = 1

# In the order of Kafka's numbers for them.
_STATES: Final = tuple(TransactionState)


@message
class TransactionLogKey:
    """A transactional id."""

    transactional_id: str = field(STRING)


@message
class PartitionsSchema:
    """Partitions of one topic."""

    topic: str = field(STRING)
    partition_ids: list[int] = field(Array(INT32))


@message
class TransactionLogValue:
    """What is known of it."""

    producer_id: int = field(INT64)
    previous_producer_id: int = field(INT64, "1+", default=-1, tag=0)
    next_producer_id: int = field(INT64, "1+", default=-1, tag=1)
    producer_epoch: int = field(INT16)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: list[PartitionsSchema] | None = field(
        Array(PartitionsSchema), nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int = field(INT64)
    client_transaction_version: int = field(INT16, "1+", default=0, tag=2)


_KEY: Final = Schema(TransactionLogKey, None)
_VALUE: Final = Schema(TransactionLogValue, _FLEXIBLE_FROM)


def by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def transaction_entry(transactional_id: str, now: TxnTransitMetadata | None) -> LogEntry:
    """The record of a transactional id, or of its end (None).

    Raises:
        SchemaError: a text is too long.
    """
    key_bytes = _written(_KEY, _KEY_VERSION, TransactionLogKey(transactional_id=transactional_id))
    if now is None:
        return LogEntry(key_bytes, None)
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in by_topic(now.partitions).items()
    ]
    value = TransactionLogValue(
        producer_id=now.producer_id,
        previous_producer_id=now.previous_producer_id,
        next_producer_id=now.next_producer_id,
        producer_epoch=now.producer_epoch,
        transaction_timeout_ms=now.timeout_ms,
        transaction_status=_STATES.index(now.state),
        transaction_partitions=None if now.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=now.update_ms,
        transaction_start_timestamp_ms=now.start_ms,
        client_transaction_version=now.client_version,
    )
    return LogEntry(key_bytes, _written(_VALUE, _VALUE_VERSION, value))


def read_transactional_id(key: bytes) -> str | None:
    """Which id a record is about; None: it is of a newer kind.

    Raises:
        SchemaError: it is damaged.
    """
    if _version(key) != _KEY_VERSION:
        return None
    return _KEY.decode(_KEY_VERSION, key, _VERSION.size).transactional_id


def read_transaction(value: bytes) -> TxnTransitMetadata:
    """What is known of an id.

    Raises:
        SchemaError: it is damaged.
    """
    found = _VALUE.decode(_version(value), value, _VERSION.size)
    if not 0 <= found.transaction_status < len(_STATES):
        raise SchemaError(f"transaction status {found.transaction_status}")
    return TxnTransitMetadata(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        update_ms=found.transaction_last_update_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        state=_STATES[found.transaction_status],
        partitions=frozenset(
            (each.topic, index)
            for each in found.transaction_partitions or ()
            for index in each.partition_ids
        ),
        start_ms=found.transaction_start_timestamp_ms,
        client_version=found.client_transaction_version,
    )


def _written(schema: Schema[Any], version: int, value: Any) -> bytes:
    return b"".join(schema.encode(version, value, _VERSION.pack(version)))


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise SchemaError(f"{len(data)} bytes, too few for a version")
    found: int = _VERSION.unpack_from(data)[0]
    return found
