"""The idempotent producer, batch by batch (contract P-F.5, P-D.7.4).

P-L.89, P-L.92, P-L.93, P-L.98-102, P-L.104 and P-L.107-110 (SenderTest); of each the part
that is not about transactions, which 103 is alone. Epochs are test_sender_epochs.py's, the
bookkeeping by itself test_sequences.py's.

Where Java has two first batches of a producer under way these tests have one acknowledged before:
a broker that does not know the producer takes any first sequence, so ours goes alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from fastprod._core.engine.control_queue import EventKind
from fastprod.errors import DeliveryTimeoutError
from support.engine.sender_steps import (
    TIMEOUT_MS,
    TOPIC,
    Steps,
    known,
    offset,
    outcome,
    retried,
    under_way,
)

NOT_LEADER = 6
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45
DUPLICATE_SEQUENCE = 46
UNKNOWN_PRODUCER_ID = 59


# Sequences (P-F.5.3, P-F.5.4).


def test_nothing_leaves_before_there_is_a_producer_id() -> None:
    """P-L.89 testInitProducerIdRequest, P-F.5.1: it is asked for once."""
    sender = Steps(has_producer_id=False)
    sender.send()
    assert sender.nothing_goes()
    assert sender.nothing_goes()
    assert sender.events(EventKind.ON_PRODUCER_ID_WANTED) == [], "the control thread begins with it"
    sender.engine.set_producer_id(9, 3)
    (batch,) = sender.sent(sender.drain())
    assert (batch.producer_id, batch.epoch, batch.sequence) == (9, 3, 0)


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    """P-L.92 testIdempotenceWithMultipleInflights as it may be: sequences 0, then 1 and 2."""
    sender = Steps()
    sender.send(b"a")
    first = sender.drain()
    assert sender.sequences(first) == [(0, 0)]
    sender.send(b"b")
    assert sender.nothing_goes()
    sender.succeed(first, 0)
    second = sender.drain()
    sender.send(b"c")
    third = sender.drain()
    assert sender.sequences(second) + sender.sequences(third) == [(0, 1), (0, 2)]


def test_several_batches_are_under_way_and_acknowledged_one_by_one() -> None:
    """P-L.92 testIdempotenceWithMultipleInflights, P-F.5.4."""
    sender = known()
    flights = under_way(sender, 2)
    assert [sender.sequences(handle) for _, handle in flights] == [[(0, 1)], [(0, 2)]]
    assert sender.state()["next_sequence"] == 3
    for number, (future, handle) in enumerate(flights):
        sender.succeed(handle, number + 1)
        assert sender.state()["last_acked_sequence"] == number + 1
        assert offset(future) == number + 1
    assert sender.in_flight() == []


def test_sequences_count_records() -> None:
    """P-F.5.3."""
    sender = known()
    for count, sequence in ((3, 1), (1, 4), (5, 5)):
        for _ in range(count):
            sender.send()
        handle = sender.drain()
        assert sender.sequences(handle) == [(0, sequence)]
        sender.succeed(handle)


def test_sequences_wrap() -> None:
    """P-F.5.2, P-F.5.11: on the wire."""
    sender = known()
    sender.door.set_next_sequence(TOPIC, 0, 2**31 - 2)
    handles = []
    for _ in range(2):
        sender.send()
        sender.send()
        handles.append(sender.drain())
    assert [sender.sequences(each) for each in handles] == [[(0, 2**31 - 2)], [(0, 0)]]
    sender.refuse(handles[0], NOT_ENOUGH_REPLICAS)
    sender.refuse(handles[1], OUT_OF_ORDER)
    assert [each["sequence"] for each in sender.queue()] == [2**31 - 2, 0]
    for sequence in (2**31 - 2, 0):
        handle = retried(sender)
        assert sender.sequences(handle) == [(0, sequence)]
        sender.succeed(handle)


# Retries (P-F.5.10, P-D.7.4).


def test_after_a_failure_batches_are_resent_one_by_one_in_order() -> None:
    """P-L.93 testIdempotenceWithMultipleInflightsRetriedInOrder: three fail, the fourth waits for
    them and has no sequence yet."""
    sender = known()
    flights = under_way(sender, 3)
    fourth = sender.send(b"3")
    sender.door.fail(flights[0][1])
    assert sender.nothing_goes(), "backing off"
    sender.refuse(flights[1][1], OUT_OF_ORDER)
    sender.refuse(flights[2][1], OUT_OF_ORDER)
    assert [each["sequence"] for each in sender.queue()] == [1, 2, 3, None]
    for number in range(3):
        handle = retried(sender)
        assert sender.values(handle) == [b"%d" % number]
        assert sender.sequences(handle) == [(0, number + 1)]
        if number < 2:
            assert sender.nothing_goes(), "one retry at a time"
        sender.succeed(handle, number)
        assert offset(flights[number][0]) == number
    handle = sender.drain()
    assert sender.sequences(handle) == [(0, 4)]
    sender.succeed(handle, 3)
    assert offset(fourth) == 3


def test_answers_in_the_wrong_order_are_put_right() -> None:
    """P-L.98 testCorrectHandlingOfOutOfOrderResponses: the second answer comes first, by another
    connection; both are queued by sequence and go one at a time."""
    sender = known()
    (_, first), (_, second) = under_way(sender, 2)
    sender.refuse(second, OUT_OF_ORDER)
    assert [each["sequence"] for each in sender.queue()] == [2]
    assert sender.nothing_goes(), "it is not its turn"
    sender.refuse(first, NOT_LEADER)
    assert [each["sequence"] for each in sender.queue()] == [1, 2]
    for sequence in (1, 2):
        handle = retried(sender)
        assert sender.sequences(handle) == [(0, sequence)]
        assert sender.nothing_goes()
        sender.succeed(handle, sequence)
    assert sender.state()["last_acked_sequence"] == 2


def test_the_last_acknowledged_does_not_go_back() -> None:
    """P-L.99 testCorrectHandlingOfOutOfOrderResponsesWhenSecondSucceeds, P-F.5.4."""
    sender = known()
    (first, one), (second, two) = under_way(sender, 2)
    sender.succeed(two, 1000)
    assert offset(second) == 1000
    assert sender.state()["last_acked_sequence"] == 2
    sender.refuse(one, NOT_ENOUGH_REPLICAS)
    sender.succeed(retried(sender), 999)
    assert offset(first) == 999
    assert sender.state()["last_acked_sequence"] == 2
    assert sender.state()["last_acked_offset"] == 1000


def test_a_retry_keeps_its_bytes() -> None:
    """P-D.7.7, P-F.5.3: producer id, epoch, sequence and records."""
    sender = known()
    ((_, handle),) = under_way(sender, 1)
    raw = sender.raw(handle)
    sender.door.fail(handle)
    assert sender.raw(retried(sender)) == raw


def test_no_more_batches_than_a_broker_remembers_follow_the_oldest() -> None:
    """P-F.5.3: the leader moves while the old one hangs; were six later ones written by the new
    one, the oldest, which is written too, would be out of sequence there and never acknowledged."""
    sender = known()
    sender.door.connect(1)
    ((first, hanging),) = under_way(sender, 1)
    sender.lead([(1, 1)])
    for number in range(4):
        sender.send()
        handle = sender.drain(1)
        assert sender.sequences(handle) == [(0, number + 2)]
        sender.succeed(handle)
    sender.send()
    assert sender.nothing_goes(1)
    sender.door.fail(hanging, 7)
    sender.pass_time(1000)
    handle = sender.drain(1)
    assert sender.sequences(handle) == [(0, 1)]
    sender.succeed(handle, 1)
    assert offset(first) == 1
    assert sender.sequences(sender.drain(1)) == [(0, 6)]


def test_without_idempotence_batches_have_no_sequence_and_any_may_be_retried() -> None:
    """P-F.3.6."""
    sender = Steps(enable_idempotence=False)
    (_, one), (_, two) = under_way(sender, 2)
    assert sender.sequences(one) == [(-1, -1)]
    sender.door.fail(one)
    sender.door.fail(two)
    sender.pass_time(1000)
    assert sender.sequences(sender.drain()) == [(-1, -1)]
    assert sender.sequences(sender.drain()) == [(-1, -1)]


# Expiry (P-F.5.7).


def test_expiry_of_a_batch_never_sent_leaves_no_hole() -> None:
    """P-L.100 testExpiryOfUnsentBatchesShouldNotCauseUnresolvedSequences."""
    sender = known()
    sender.door.mute(TOPIC, 0, True)
    sender.send()
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    assert not sender.state()["has_unresolved"]
    sender.door.mute(TOPIC, 0, False)
    sender.send()
    assert sender.sequences(sender.drain()) == [(0, 1)]


def expire_the_first_of_two(sender: Steps) -> tuple[Any, Any, int]:
    """Two batches; the first is lost, then out of time. The futures, and the second's request."""
    first = sender.send(b"0")
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS - 100)
    second = sender.send(b"1")
    other = sender.drain()
    sender.door.fail(handle)
    sender.pass_time(100)
    sender.door.expire()
    assert isinstance(outcome(first), DeliveryTimeoutError)
    assert sender.state()["has_unresolved"]
    return first, second, other


def test_after_an_expiry_the_next_new_batch_waits_until_it_is_known_what_arrived() -> None:
    """P-L.101 testExpiryOfFirstBatchShouldNotCauseUnresolvedSequencesIfFutureBatchesSucceed."""
    sender = known()
    _, second, handle = expire_the_first_of_two(sender)
    sender.send(b"2")
    assert sender.nothing_goes()
    sender.succeed(handle, 9)
    assert offset(second) == 9
    assert sender.sequences(sender.drain()) == [(0, 3)]
    assert not sender.state()["has_unresolved"]


def test_if_later_batches_fail_too_the_expired_one_never_arrived() -> None:
    """P-L.102 testExpiryOfFirstBatchShouldCauseEpochBumpIfFutureBatchesFail: epoch 1, and the rest
    is resent in it."""
    sender = known()
    _, _, handle = expire_the_first_of_two(sender)
    sender.send(b"2")
    sender.refuse(handle, OUT_OF_ORDER)
    handle = retried(sender)
    assert sender.values(handle) == [b"1"]
    assert sender.sequences(handle) == [(1, 0)]
    sender.succeed(handle)
    assert sender.sequences(sender.drain()) == [(1, 1)]


def test_if_everything_sent_expires_the_next_batch_starts_a_new_epoch() -> None:
    """P-L.158, P-L.104 testExpiryOfAllSentBatchesShouldCauseUnresolvedSequences, P-D.8.7."""
    sender = known()
    ((future, handle),) = under_way(sender, 1)
    sender.refuse(handle, NOT_LEADER)
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    assert isinstance(outcome(future), DeliveryTimeoutError)
    sender.send()
    assert sender.sequences(sender.drain()) == [(1, 0)]


@pytest.mark.parametrize("ending", ["success", "lost"])
def test_a_batch_that_expires_at_its_first_attempt_is_unresolved_too(ending: str) -> None:
    """P-F.5.7, the deviation: Java leaves it out."""
    sender = known()
    ((future, handle),) = under_way(sender, 1)
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    assert isinstance(outcome(future), DeliveryTimeoutError)
    sender.send()
    assert sender.nothing_goes()
    if ending == "success":
        sender.succeed(handle, 1)
    else:
        sender.door.fail(handle)
    expected = (0, 2) if ending == "success" else (1, 0)
    assert sender.sequences(sender.drain()) == [expected]


def test_what_was_given_up_may_have_been_written_and_so_may_its_follower() -> None:
    """P-F.5.7, P-F.5.8: a follower sent again in a new epoch would be there twice. The connection
    ends in the very turn in which the first batch is out of time."""
    sender = known()
    first = sender.send(b"0")
    one = sender.drain()
    sender.pass_time(TIMEOUT_MS - 1)
    second = sender.send(b"1")
    two = sender.drain()
    sender.pass_time(1)
    sender.door.fail(two)
    sender.door.fail(one)
    assert isinstance(outcome(first), DeliveryTimeoutError)
    handle = retried(sender)
    assert sender.values(handle) == [b"1"]
    assert sender.sequences(handle) == [(0, 2)], "the broker can tell a duplicate"
    sender.succeed(handle, 2)
    assert offset(second) == 2


# Answers of their own (P-F.4.2, P-F.5.5).


def test_a_duplicate_is_a_success() -> None:
    """P-L.107 testCorrectHandlingOfDuplicateSequenceError: no offset, the last acknowledged
    stays.
    """
    sender = known()
    (first, one), (second, two) = under_way(sender, 2)
    sender.succeed(two, 1000)
    sender.refuse(one, DUPLICATE_SEQUENCE)
    assert offset(first) == -1
    assert offset(second) == 1000
    assert sender.state()["last_acked_sequence"] == 2
    assert sender.state()["last_acked_offset"] == 1000


def test_a_producer_forgotten_because_its_records_aged_out_starts_again() -> None:
    """P-L.108 testIdempotentUnknownProducerHandlingWhenRetentionLimitReached, P-F.5.5: epoch 1,
    sequence 0."""
    sender = known()
    ((_, handle),) = under_way(sender, 1)
    sender.succeed(handle, 1000)
    ((future, handle),) = under_way(sender, 1)
    sender.refuse(handle, UNKNOWN_PRODUCER_ID, log_start_offset=1010)
    handle = retried(sender)
    assert sender.sequences(handle) == [(1, 0)]
    assert sender.state()["last_acked_offset"] == -1
    sender.answer(handle, base_offset=1011, log_start_offset=1010)
    assert offset(future) == 1011
    assert sender.state()["last_acked_sequence"] == 0


def test_a_producer_forgotten_for_no_known_reason_just_tries_again() -> None:
    """P-L.109 testUnknownProducerErrorShouldBeRetriedWhenLogStartOffsetIsUnknown."""
    sender = known()
    ((future, handle),) = under_way(sender, 1)
    sender.refuse(handle, UNKNOWN_PRODUCER_ID, log_start_offset=-1)
    handle = retried(sender)
    assert sender.sequences(handle) == [(0, 1)]
    sender.succeed(handle, 5)
    assert offset(future) == 5


def test_batches_behind_a_forgotten_one_are_reset_with_it() -> None:
    """P-L.110 testUnknownProducerErrorShouldBeRetriedForFutureBatchesWhenFirstFails: 0 and 1."""
    sender = known()
    (first, one), (second, two) = under_way(sender, 2)
    sender.refuse(one, UNKNOWN_PRODUCER_ID, log_start_offset=1010)
    sender.refuse(two, UNKNOWN_PRODUCER_ID, log_start_offset=1010)
    for future, sequence in ((first, 0), (second, 1)):
        handle = retried(sender)
        assert sender.sequences(handle) == [(1, sequence)]
        sender.succeed(handle, 1011 + sequence)
        assert offset(future) == 1011 + sequence
    assert sender.counters()["epoch_bumps"] == 1
