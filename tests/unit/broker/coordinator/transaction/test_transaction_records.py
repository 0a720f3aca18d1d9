"""What __transaction_state holds (B-E4), byte by byte as Kafka 4 writes it."""

from __future__ import annotations

import struct

import pytest

from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TransactionState,
    TxnTransitMetadata,
)
from fastprod.broker.coordinator.transaction.transaction_records import (
    read_transaction,
    read_transactional_id,
    transaction_entry,
)
from fastprod.protocol.schema import SchemaError

OPEN = TxnTransitMetadata(
    producer_id=9,
    producer_epoch=3,
    timeout_ms=60_000,
    update_ms=1_700_000_000_123,
    previous_producer_id=8,
    next_producer_id=10,
    state=TransactionState.ONGOING,
    partitions=frozenset({("t", 1), ("t", 0), ("u", 2)}),
    start_ms=1_700_000_000_000,
    client_version=2,
)


@pytest.mark.parametrize("state", TransactionState)
def test_what_is_written_is_read(state: TransactionState) -> None:
    partitions = OPEN.partitions if state is not TransactionState.EMPTY else frozenset()
    now = OPEN._replace(state=state, partitions=partitions)
    entry = transaction_entry("x", now)
    assert read_transactional_id(entry.key) == "x"
    assert entry.value is not None
    assert read_transaction(entry.value) == now
    assert transaction_entry("x", None) == (entry.key, None)


def test_the_bytes_are_kafkas() -> None:
    """TransactionLogKey 0 and TransactionLogValue 1, which has tagged fields."""
    now = TxnTransitMetadata(9, 3, 60_000, 5, previous_producer_id=9, client_version=2)
    key, value = transaction_entry("ab", now)
    assert key == b"\0\0\0\2ab"
    head = struct.pack(">hqhib", 1, 9, 3, 60_000, 0)
    # No partitions is null; tag 0 is the previous id, tag 2 the client's protocol.
    tail = b"\0" + struct.pack(">qq", 5, -1) + b"\2\0\x08" + struct.pack(">q", 9) + b"\2\2\0\2"
    assert value == head + tail


def test_older_values_and_newer_keys_are_understood() -> None:
    old = struct.pack(">hqhibi", 0, 9, 3, 60_000, 4, 0) + struct.pack(">qq", 5, -1)
    found = read_transaction(old)
    assert (found.state, found.previous_producer_id) == (TransactionState.COMPLETE_COMMIT, -1)
    assert read_transactional_id(b"\0\7whatever") is None


@pytest.mark.parametrize("damaged", [b"", b"\0\1", struct.pack(">hqhib", 1, 9, 3, 1, 99)])
def test_what_is_damaged_is_refused(damaged: bytes) -> None:
    with pytest.raises(SchemaError):
        read_transaction(damaged)
