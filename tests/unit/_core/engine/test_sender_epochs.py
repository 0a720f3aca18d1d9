"""Epochs of the idempotent producer, batch by batch (contract P-F.5.6, P-F.5.8, P-F.5.9).

P-L.94-97, P-L.105, P-L.106, P-L.111 and P-L.114 (SenderTest), without transactions.
"""

from __future__ import annotations

import pytest

from fastprod._core.engine.control_queue import EventKind
from fastprod.errors import (
    DeliveryTimeoutError,
    InvalidRecordError,
    KafkaError,
    RecordTooLargeError,
)
from support.engine.sender_steps import (
    PRODUCER_ID,
    TIMEOUT_MS,
    TOPIC,
    known,
    offset,
    outcome,
    retried,
    under_way,
)

MESSAGE_TOO_LARGE = 10
NETWORK_EXCEPTION = 13
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45
INVALID_RECORD = 87
LAST_EPOCH = 32767


# Epochs (P-F.5.6, P-F.5.8, P-F.5.9).


def test_after_a_batch_refused_for_good_the_next_one_starts_a_new_epoch() -> None:
    """P-L.94 testIdempotenceWithMultipleInflightsWhereFirstFailsFatallyAndSequenceOfFutureBatches
    IsAdjusted: a single record is too large; the second is resent with sequence 0."""
    sender = known()
    (first, one), (second, two) = under_way(sender, 2)
    sender.refuse(one, MESSAGE_TOO_LARGE)
    assert isinstance(outcome(first), RecordTooLargeError)
    assert sender.nothing_goes()
    sender.refuse(two, OUT_OF_ORDER)
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0)]
    sender.succeed(handle, 5)
    assert offset(second) == 5
    assert sender.state()["last_acked_sequence"] == 0


def test_the_next_expected_batch_out_of_sequence_starts_a_new_epoch() -> None:
    """P-L.95 testEpochBumpOnOutOfOrderSequenceForNextBatch, P-L.111
    testShouldRaiseOutOfOrderSequenceExceptionToUserIfLogWasNotTruncated, P-L.114
    testBumpEpochWhenOutOfOrderSequenceReceived, P-F.5.6: it stays pending and is resent."""
    sender = known()
    ((future, handle),) = under_way(sender, 1)
    sender.refuse(handle, OUT_OF_ORDER)
    assert outcome(future) is None
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0)]
    assert sender.counters()["epoch_bumps"] == 1
    sender.succeed(handle, 1)
    assert offset(future) == 1


def test_other_partitions_take_the_new_epoch_when_they_are_idle() -> None:
    """P-L.138, P-L.96 testEpochBumpOnOutOfOrderSequenceForNextBatchWhenThereIsNoBatchInFlight."""
    sender = known(2)
    ((_, handle),) = under_way(sender, 1, partition=0)
    sender.succeed(handle)
    ((_, handle),) = under_way(sender, 1, partition=1)
    sender.refuse(handle, OUT_OF_ORDER)
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0)]
    sender.succeed(handle)
    assert sender.state(0)["epoch"] == 0
    ((_, handle),) = under_way(sender, 1, partition=0)
    assert sender.sequences(handle) == [(1, 0)]


def test_a_partition_with_batches_in_flight_keeps_the_old_epoch_until_they_are_done() -> None:
    """P-L.97 testEpochBumpOnOutOfOrderSequenceForNextBatchWhenBatchInFlightFails, P-L.106
    testBatchesDrainedWithOldProducerIdShouldSucceedOnSubsequentRetry, P-L.138, P-L.161, P-F.5.9:
    also across a retry; a new batch waits, and then starts clean."""
    sender = known(2)
    ((other, waiting),) = under_way(sender, 1, partition=0)
    ((_, handle),) = under_way(sender, 1, partition=1)
    sender.refuse(handle, OUT_OF_ORDER)
    sender.succeed(retried(sender))
    sender.send(b"next", 0)
    assert sender.nothing_goes()
    sender.refuse(waiting, NOT_ENOUGH_REPLICAS)
    handle = retried(sender)
    assert sender.sequences(handle) == [(0, 1)]
    assert sender.nothing_goes()
    sender.succeed(handle, 8)
    assert offset(other) == 8
    handle = sender.drain()
    assert sender.values(handle) == [b"next"]
    assert sender.sequences(handle) == [(1, 0)]


@pytest.mark.parametrize("ending", [INVALID_RECORD, None])
def test_a_partition_whose_old_batch_fails_starts_clean(ending: int | None) -> None:
    """P-L.97 ...WhenBatchInFlightFails: refused, or out of time."""
    sender = known(2)
    ((failing, waiting),) = under_way(sender, 1, partition=0)
    ((_, handle),) = under_way(sender, 1, partition=1)
    sender.refuse(handle, OUT_OF_ORDER)
    sender.succeed(retried(sender))
    if ending is None:
        sender.pass_time(TIMEOUT_MS)
        sender.door.expire()
        sender.refuse(waiting, OUT_OF_ORDER)
        assert isinstance(outcome(failing), DeliveryTimeoutError)
    else:
        sender.refuse(waiting, ending)
        assert isinstance(outcome(failing), InvalidRecordError)
    ((_, handle),) = under_way(sender, 1, partition=0)
    assert sender.sequences(handle) == [(1, 0)]


def test_two_partitions_may_start_a_new_epoch_at_once() -> None:
    """P-F.5.9: they share it."""
    sender = known(2)
    sender.send(b"a", 0)
    sender.send(b"b", 1)
    sender.refuse(sender.drain(), OUT_OF_ORDER)
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0), (1, 0)]
    assert sender.door.producer_epoch == 1


def test_a_late_success_of_a_batch_that_was_to_be_resent_stands() -> None:
    """P-F.5.12, P-L.161, P-L.114 testRetryWhenProducerIdChanges: nothing is rewritten while it is
    under way.
    """
    sender = known()
    (_, one), (second, two) = under_way(sender, 2)
    sender.refuse(one, INVALID_RECORD)
    assert [each["sequence"] for each in sender.in_flight()] == [2]
    sender.succeed(two, 70)
    assert offset(second) == 70
    sender.send()
    assert sender.sequences(sender.drain()) == [(1, 0)]


@pytest.mark.parametrize("code", [7, NETWORK_EXCEPTION, 20])
def test_what_may_have_been_written_is_not_rewritten_for_a_new_epoch(code: int) -> None:
    """P-F.5.8, P-F.5.9, the deviation: Java rewrites it, and it is there twice. It goes as it was
    until the broker says whether it has it; then the rest starts the new epoch."""
    sender = known()
    (first, one), (second, two), (third, three) = under_way(sender, 3)
    sender.refuse(two, INVALID_RECORD)
    sender.refuse(three, OUT_OF_ORDER)
    sender.refuse(one, code)
    assert isinstance(outcome(second), InvalidRecordError)
    handle = retried(sender)
    assert sender.sequences(handle) == [(0, 1)]
    assert sender.nothing_goes()
    sender.succeed(handle, 1)
    assert offset(first) == 1
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0)]
    sender.succeed(handle, 2)
    assert offset(third) == 2


def test_what_turns_out_not_to_be_written_starts_the_new_epoch() -> None:
    """P-F.5.9: out of sequence, so it is not there."""
    sender = known()
    (_, one), (second, two) = under_way(sender, 2)
    sender.refuse(one, INVALID_RECORD)
    sender.door.fail(two)
    handle = retried(sender)
    assert sender.sequences(handle) == [(0, 2)]
    sender.refuse(handle, OUT_OF_ORDER)
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0)]
    sender.succeed(handle, 9)
    assert offset(second) == 9


# The last epoch (P-F.5.9).


def test_after_the_last_epoch_a_new_producer_id_is_asked_for() -> None:
    """P-L.105 testResetOfProducerStateShouldAllowQueuedBatchesToDrain: retries of an untouched
    partition wait for it too, keep their old id, and everything drains."""
    sender = known(2)
    sender.engine.set_producer_id(PRODUCER_ID, LAST_EPOCH)
    sender.door.obey()
    for partition in (0, 1):
        sender.door.set_next_sequence(TOPIC, partition, 1)
    sender.door.events()
    ((other, waiting),) = under_way(sender, 1, partition=1)
    ((failed, one),) = under_way(sender, 1, partition=0)
    behind = sender.send(b"behind", 0)
    sender.refuse(one, INVALID_RECORD)
    assert isinstance(outcome(failed), KafkaError)
    assert sender.nothing_goes()
    assert sender.nothing_goes()
    assert len(sender.events(EventKind.ON_PRODUCER_ID_WANTED)) == 1
    sender.engine.set_producer_id(PRODUCER_ID + 1, 0)
    sender.refuse(waiting, NOT_ENOUGH_REPLICAS)
    sender.pass_time(1000)
    found = {}
    while any(sender.queue(each) for each in (0, 1)):
        handle = sender.drain()
        for each in sender.sent(handle):
            found[each.values[0]] = (each.producer_id, each.epoch, each.sequence)
        sender.succeed(handle, 3)
    assert found == {
        b"behind": (PRODUCER_ID + 1, 0, 0),
        b"0": (PRODUCER_ID, LAST_EPOCH, 1),
    }
    assert offset(behind) == 3
    assert offset(other) == 3


def test_a_partition_with_nothing_left_does_not_wait_for_a_new_producer_id() -> None:
    """P-L.105 testCloseWithProducerIdReset, P-A.9.3: it may never come, and close would not end."""
    sender = known()
    sender.engine.set_producer_id(PRODUCER_ID, LAST_EPOCH)
    sender.door.obey()
    sender.door.set_next_sequence(TOPIC, 0, 1)
    sender.send()
    (_, one), (last, two) = under_way(sender, 2)
    sender.refuse(one, INVALID_RECORD)
    sender.refuse(two, OUT_OF_ORDER)
    assert sender.nothing_goes()
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    assert isinstance(outcome(last), DeliveryTimeoutError)
    assert sender.nothing_goes()
    assert not sender.state()["is_listed"]
    sender.engine.set_producer_id(PRODUCER_ID + 1, 0)
    sender.send()
    (batch,) = sender.sent(sender.drain())
    assert (batch.producer_id, batch.epoch, batch.sequence) == (PRODUCER_ID + 1, 0, 0)


def test_a_producer_id_that_comes_late_is_adopted_by_all() -> None:
    """P-F.5.9, P-L.114 testRetryWhenProducerIdChanges."""
    sender = known(2)
    sender.engine.set_producer_id(PRODUCER_ID + 7, 0)
    sender.send(b"a", 0)
    sender.send(b"b", 1)
    sent = sender.sent(sender.drain())
    assert [(each.producer_id, each.epoch, each.sequence) for each in sent] == [
        (PRODUCER_ID + 7, 0, 0)
    ] * 2
