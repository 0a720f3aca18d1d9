"""The engine's part of a transaction, batch by batch (P-I.2, P-D.10)."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from fastprod._core.delivery.result import ERR_TXN_ABORTED
from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.errors import OutOfOrderSequenceError, TransactionAbortedError
from fastprod.protocol.api_keys import END_TXN
from support.engine.sender_steps import PRODUCER_ID, TIMEOUT_MS, Steps, offset, outcome, retried
from support.oracle import kio_codec

IDS: dict[str, Any] = {"transactional_id": "ledger", "client_id": "c"}
NOT_LEADER = 6
OUT_OF_ORDER = 45
INVALID_PRODUCER_EPOCH = 47
UNKNOWN_PRODUCER_ID = 59
BOTH = pytest.mark.parametrize("is_v2", [False, True], ids=["before KIP-890", "KIP-890"])


def sending(*, is_v2: bool = True, partitions: int = 1, **settings: Any) -> Steps:
    """In a transaction; with the old protocol its partitions have still to be added."""
    sender = Steps([(0, 0)] * partitions, **{**IDS, **settings})
    sender.engine.begin_transaction(is_v2)
    return sender


def add(sender: Steps, partition: int = 0) -> None:
    sender.engine.add_partition(sender.topic, partition)


def told(sender: Steps, kind: EventKind) -> list[ControlEvent]:
    sender.nothing_goes()
    return sender.events(kind)


# Inside and outside.


def test_records_are_taken_inside_of_a_transaction_only() -> None:
    """P-A.3.17: natively, so that no thread slips a record in behind the commit."""
    sender = Steps(**IDS)
    with pytest.raises(OSError, match="closed"):
        sender.send()
    sender.engine.begin_transaction(True)
    sender.send()
    sender.engine.end_transaction(7)
    with pytest.raises(OSError, match="closed"):
        sender.send()


def test_a_closed_producer_is_not_opened_by_a_transaction() -> None:
    """P-A.9.8"""
    sender = Steps(**IDS)
    sender.engine.close_accumulator()
    sender.engine.begin_transaction(True)
    with pytest.raises(OSError, match="closed"):
        sender.send()


@pytest.mark.parametrize(("is_v2", "version"), [(True, 12), (False, 11), (False, 9), (False, 5)])
def test_requests_and_batches_say_that_they_are_of_a_transaction(is_v2: bool, version: int) -> None:
    """P-F.3.1, P-E.2: the id and the bit."""
    sender = Steps(version=version, **IDS)
    sender.engine.begin_transaction(is_v2)
    future = sender.send(b"a")
    if not is_v2:
        assert sender.nothing_goes()
        add(sender)
    handle = sender.drain()
    _, message = kio_codec.decode_request(sender.door.frame(handle)[4:])
    assert message.transactional_id == "ledger"
    (batch,) = sender.sent(handle)
    assert (batch.producer_id, batch.epoch, batch.sequence) == (PRODUCER_ID, 0, 0)
    assert batch.batch.is_transactional
    sender.succeed(handle, 5)
    assert offset(future) == 5


# Partitions join (P-I.2.1, P-A.3.10).


def test_a_partition_waits_until_it_was_added() -> None:
    """P-L.135, P-I.2.3, P-A.3.10, P-L.156 testNoDrainWhenPartitionsPending; it is told once."""
    sender = sending(is_v2=False, partitions=2)
    sender.send(b"a", 0)
    sender.send(b"b", 0)
    sender.send(b"c", 1)
    assert sorted(
        (each.topic, each.partition) for each in told(sender, EventKind.ON_PARTITION_JOINED)
    ) == [("t", 0), ("t", 1)]
    add(sender, 1)
    assert sender.values(sender.drain()) == [b"c"]
    assert sender.nothing_goes()
    add(sender, 0)
    assert sender.values(sender.drain()) == [b"a", b"b"]
    assert told(sender, EventKind.ON_PARTITION_JOINED) == []


def test_a_partition_joins_by_its_records_where_the_broker_adds_it() -> None:
    """P-I.2.1 (KIP-890)"""
    sender = sending(partitions=2)
    sender.send(b"a")
    handle = sender.drain()
    assert sender.values(handle) == [b"a"]
    sender.succeed(handle)
    sender.engine.end_transaction(3)
    (drained,) = told(sender, EventKind.ON_TRANSACTION_DRAINED)
    assert (drained.token, drained.item_count, drained.code) == (3, 1, 0)


@BOTH
def test_a_partition_joins_each_transaction_anew(is_v2: bool) -> None:
    """P-L.135, P-I.2.4"""
    sender = sending(is_v2=is_v2)
    for number in range(3):
        sender.send(b"a")
        if not is_v2:
            assert len(told(sender, EventKind.ON_PARTITION_JOINED)) == 1
            add(sender)
        handle = sender.drain()
        assert sender.sequences(handle) == [(0, number)]
        sender.succeed(handle, number)
        sender.engine.end_transaction(number + 1)
        assert len(told(sender, EventKind.ON_TRANSACTION_DRAINED)) == 1
        sender.engine.begin_transaction(is_v2)


def test_a_new_epoch_begins_with_sequence_0() -> None:
    """P-I.7.6, P-I.6.2: whatever was lost under the old one."""
    sender = sending()
    future = sender.send(b"a")
    sender.refuse(sender.drain(), INVALID_PRODUCER_EPOCH)
    assert outcome(future) is not None
    assert sender.state()["has_unresolved"]
    sender.engine.end_transaction(1)
    assert len(told(sender, EventKind.ON_TRANSACTION_DRAINED)) == 1
    sender.engine.set_producer_id(PRODUCER_ID, 1)
    sender.engine.begin_transaction(True)
    sender.send(b"b")
    handle = sender.drain()
    assert sender.sequences(handle) == [(1, 0)]
    sender.succeed(handle)


# The end (P-I.3.2).


def test_the_end_waits_for_every_answer() -> None:
    """P-I.3.2, P-L.123 testAwaitPendingRecordsBeforeCommittingTransaction, P-L.131, P-L.152."""
    sender = sending(partitions=2)
    sender.send(b"a", 0)
    first = sender.drain()
    sender.send(b"b", 1)
    second = sender.drain()
    sender.engine.end_transaction(9)
    assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == []
    sender.succeed(first)
    assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == []
    sender.refuse(second, NOT_LEADER)
    assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == []
    sender.succeed(retried(sender))
    (drained,) = told(sender, EventKind.ON_TRANSACTION_DRAINED)
    assert (drained.token, drained.item_count, drained.code) == (9, 2, 0)
    assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == [], "once"


def test_nothing_lingers_when_a_transaction_ends() -> None:
    """P-L.56 testRecordsDrainedWhenTransactionCompleting, P-L.122: and the next one lingers."""
    sender = sending(linger_ms=1_000)
    sender.send(b"a")
    assert not sender.door.ready(0)[0]
    sender.engine.end_transaction(1)
    sender.succeed(sender.drain())
    assert len(told(sender, EventKind.ON_TRANSACTION_DRAINED)) == 1
    sender.engine.begin_transaction(True)
    sender.send(b"b")
    assert not sender.door.ready(0)[0]


def test_a_transaction_without_records_is_at_its_end_at_once() -> None:
    sender = sending()
    sender.engine.end_transaction(2)
    (drained,) = told(sender, EventKind.ON_TRANSACTION_DRAINED)
    assert (drained.token, drained.item_count) == (2, 0)


# A request that goes at the end (P-I.3.9).

FRAME = struct.pack(">ihhih", 10, END_TXN, 0, 0, -1)


def ending(sender: Steps, token: int) -> socket.socket:
    """The transaction ends, and then a request goes to node 1; the far end of its connection."""
    near, far = socket.socketpair()
    far.setblocking(False)
    sender.door.connect_socket(1, near.detach())
    sender.engine.end_transaction(token)
    sender.engine.send_frame(1, 77, FRAME, ending=token)
    return far


def test_a_request_may_wait_for_the_end() -> None:
    """P-I.3.9: it goes instead of the tidings."""
    sender = sending()
    sender.send(b"a")
    handle = sender.drain()
    with ending(sender, 5) as far:
        assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == []
        with pytest.raises(BlockingIOError):
            far.recv(100)
        sender.succeed(handle)
        assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == []
        assert far.recv(100) == FRAME
        sender.door.disconnect(1)
        (lost,) = sender.events(EventKind.ON_RESPONSE)
        assert (lost.token, lost.data) == (77, None)


@pytest.mark.parametrize("why", ["failed", "no records"])
def test_a_request_that_waits_for_an_end_that_fails_never_goes(why: str) -> None:
    """P-I.3.9"""
    sender = sending()
    if why == "failed":
        sender.send(b"a")
        sender.refuse(sender.drain(), INVALID_PRODUCER_EPOCH)
    with ending(sender, 5) as far:
        assert len(told(sender, EventKind.ON_TRANSACTION_DRAINED)) == 1
        sender.engine.begin_transaction(True)
        assert told(sender, EventKind.ON_RESPONSE) == []
        with pytest.raises(BlockingIOError):
            far.recv(100)


def test_a_request_for_another_end_never_goes() -> None:
    """P-I.3.9: it came too late, or another end was asked for."""
    sender = sending()
    sender.send(b"a")
    handle = sender.drain()
    with ending(sender, 5) as far:
        sender.nothing_goes()
        sender.engine.end_transaction(6)
        sender.engine.send_frame(1, 78, FRAME, ending=5)
        sender.nothing_goes()
        sender.succeed(handle)
        (drained,) = told(sender, EventKind.ON_TRANSACTION_DRAINED)
        assert drained.token == 6
        with pytest.raises(BlockingIOError):
            far.recv(100)


# Failures.


@BOTH
def test_what_has_never_left_fails_when_it_is_aborted(is_v2: bool) -> None:
    """P-D.10.2, P-L.52, P-L.124 testTransactionAbortedExceptionOnAbortWithoutError, P-L.153."""
    sender = sending(is_v2=is_v2)
    first = sender.send(b"a")
    if not is_v2:
        sender.nothing_goes()
        add(sender)
    handle = sender.drain()
    never = sender.send(b"b")
    sender.engine.abort_undrained(ERR_TXN_ABORTED, "a reason")
    sender.engine.end_transaction(1)
    assert told(sender, EventKind.ON_TRANSACTION_DRAINED) == []
    error = outcome(never)
    assert isinstance(error, TransactionAbortedError)
    assert "a reason" in str(error)
    assert outcome(first) is None
    sender.succeed(handle, 4)
    assert offset(first) == 4
    (drained,) = told(sender, EventKind.ON_TRANSACTION_DRAINED)
    assert drained.code == ERR_TXN_ABORTED
    assert sender.memory_is_back()


def test_what_is_sent_again_ends_before_an_abort() -> None:
    """P-A.8.6, P-L.146 testRecoveryFromAbortableErrorProduceRequestInRetry, P-L.153."""
    sender = sending()
    future = sender.send(b"a")
    sender.refuse(sender.drain(), NOT_LEADER)
    sender.engine.abort_undrained(ERR_TXN_ABORTED, "")
    sender.engine.end_transaction(1)
    assert outcome(future) is None
    sender.succeed(retried(sender), 3)
    assert offset(future) == 3
    assert len(told(sender, EventKind.ON_TRANSACTION_DRAINED)) == 1


def test_a_failed_batch_is_told_of_before_the_end() -> None:
    """P-I.6.6"""
    sender = sending()
    sender.send(b"a")
    sender.refuse(sender.drain(), INVALID_PRODUCER_EPOCH)
    sender.engine.end_transaction(1)
    sender.nothing_goes()
    kinds = [(event.kind, event.code) for event in sender.door.events()]
    assert kinds[-2:] == [
        (EventKind.ON_FAILED, INVALID_PRODUCER_EPOCH),
        (EventKind.ON_TRANSACTION_DRAINED, INVALID_PRODUCER_EPOCH),
    ]


def test_batches_behind_one_that_failed_fail_too() -> None:
    """P-F.5.6, P-F.5.8, P-L.103: their sequence will never come, and no epoch is bumped for it."""
    sender = sending()
    sender.door.set_next_sequence("t", 0, 1)
    futures, handles = [], []
    for value in (b"a", b"b"):
        futures.append(sender.send(value))
        handles.append(sender.drain())
    sender.refuse(handles[0], INVALID_PRODUCER_EPOCH)
    sender.refuse(handles[1], OUT_OF_ORDER)
    assert isinstance(outcome(futures[1]), OutOfOrderSequenceError)
    assert sender.counters()["producer_epoch"] == 0
    assert sender.counters()["epoch_bumps"] == 0


def test_a_batch_that_expired_makes_no_epoch() -> None:
    """P-F.5.7, P-L.127, P-L.103 testUnresolvedSequencesAreNotFatal: it is to be aborted."""
    sender = sending(delivery_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS)
    sender.send(b"a")
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS + 1)
    sender.door.expire()
    late = sender.send(b"b")
    assert sender.nothing_goes()
    sender.refuse(handle, 48)
    sender.engine.abort_undrained(ERR_TXN_ABORTED, "")
    sender.engine.end_transaction(1)
    assert len(told(sender, EventKind.ON_TRANSACTION_DRAINED)) == 1, "a late answer is no harm"
    assert isinstance(outcome(late), TransactionAbortedError)
    assert sender.counters()["epoch_bumps"] == 0


def test_a_producer_that_was_forgotten_begins_anew_under_its_epoch() -> None:
    """P-F.5.5, P-L.108 testTransactionalUnknownProducerHandlingWhenRetentionLimitReached."""
    sender = sending()
    sender.send(b"a")
    sender.succeed(sender.drain(), 1_000)
    future = sender.send(b"b")
    handle = sender.drain()
    assert sender.sequences(handle) == [(0, 1)]
    sender.refuse(handle, UNKNOWN_PRODUCER_ID, log_start_offset=1_010)
    again = retried(sender)
    assert sender.sequences(again) == [(0, 0)]
    sender.succeed(again, 1_012)
    assert offset(future) == 1_012


def test_a_producer_that_was_forgotten_with_its_records_there_fails() -> None:
    """P-F.5.5"""
    sender = sending()
    sender.send(b"a")
    sender.succeed(sender.drain(), 1_000)
    future = sender.send(b"b")
    sender.refuse(sender.drain(), UNKNOWN_PRODUCER_ID, log_start_offset=10)
    assert isinstance(outcome(future), OutOfOrderSequenceError)


def test_the_engine_of_a_producer_without_transactions_has_none() -> None:
    sender = Steps()
    sender.send(b"a")
    handle = sender.drain()
    _, message = kio_codec.decode_request(sender.door.frame(handle)[4:])
    assert message.transactional_id is None
    (batch,) = sender.sent(handle)
    assert not batch.batch.is_transactional
    sender.succeed(handle)
