"""Sequence numbers and epochs of an idempotent producer (contract P-F.5, P-D.7.4).

P-L.136 and P-L.184 (increment and decrement).
"""

from __future__ import annotations

import pytest

from fastprod._core.testing.request_doors import (
    ProducerStateForTest,
    next_sequence_for_test,
)

MAX = 2**31 - 1
MAX_EPOCH = 2**15 - 1
OUT_OF_ORDER = 45
UNKNOWN_PRODUCER_ID = 59


@pytest.mark.parametrize(
    ("sequence", "count", "following"),
    [
        (5, 5, 10),
        (MAX, 1, 0),
        (MAX - 5, 10, 4),
        (0, MAX, MAX),
        (MAX, 100, 99),
        (99, MAX, 98),
        (0, 0, 0),
        (MAX, 0, MAX),
        (MAX - 1, 1, MAX),
        (MAX, MAX, MAX - 1),
    ],
)
def test_sequences_wrap_behind_the_largest_int(sequence: int, count: int, following: int) -> None:
    """P-F.5.2; P-L.136: 0 + MAX, then + 100, then + MAX; P-L.184."""
    assert next_sequence_for_test(sequence, count) == following


def test_batches_get_consecutive_sequences_across_the_wrap() -> None:
    """P-F.5.3, P-D.7.6."""
    producer = ProducerStateForTest(next_sequence=MAX - 4)
    for name, count in enumerate((3, 4, 5)):
        assert producer.drain(name, count)
    assert [producer.sequence(name)[2] for name in range(3)] == [MAX - 4, MAX - 1, 2]
    assert producer.state["next_sequence"] == 7
    assert producer.flights() == [0, 1, 2]


def test_the_last_acknowledged_sequence_goes_forward_across_the_wrap() -> None:
    """P-F.5.4, P-F.5.11."""
    producer = ProducerStateForTest(next_sequence=MAX - 4)
    for name, count in enumerate((3, 4, 5)):
        producer.drain(name, count)
    for name, last in enumerate((MAX - 2, 1, 6)):
        producer.acked(name, name * 10)
        assert producer.state["last_acked_sequence"] == last
    assert producer.state["last_acked_offset"] == 24


@pytest.mark.parametrize("start", [1, 1000, MAX - 4, MAX - 3, MAX - 2, MAX])
def test_a_late_answer_never_takes_the_last_acknowledged_sequence_back(start: int) -> None:
    """P-F.5.4, P-F.5.11: also when the newer batch is behind the wrap and its number smaller."""
    producer = ProducerStateForTest(next_sequence=start)
    for name in range(3):
        producer.drain(name, 2)
    producer.acked(2, 104)
    newest = producer.state["last_acked_sequence"]
    assert newest == next_sequence_for_test(start, 5)
    for name in (0, 1):
        producer.acked(name, 100 + 2 * name)
        assert producer.state["last_acked_sequence"] == newest
    assert producer.state["last_acked_offset"] == 105
    assert producer.flights() == []


def test_the_first_batch_of_a_sequence_goes_alone() -> None:
    """A leader that knows no sequence of ours takes any: of two it could take the second."""
    producer = ProducerStateForTest()
    assert producer.drain(0)
    assert not producer.drain(1)
    assert producer.drain(0), "its retry goes"
    producer.answered(0)
    assert not producer.drain(1)
    producer.acked(0)
    assert producer.drain(1)
    assert producer.drain(2)


def test_an_expired_batch_that_arrived_after_all_needs_no_new_epoch() -> None:
    """P-F.5.7, P-L.158: unresolved, then the next sequence follows the last acknowledged one."""
    producer = ProducerStateForTest()
    producer.drain(0, 3)
    producer.expired(0)
    assert not producer.drain(1), "a new batch while it is open whether the last one arrived"
    producer.acked(0)
    assert producer.state["has_unresolved"] == 0
    assert producer.state["epoch_bumps"] == 0
    assert producer.drain(1)
    assert producer.sequence(1) == (4000, 0, 3)


@pytest.mark.parametrize("start", [0, 50, MAX - 2])
def test_an_expired_batch_without_an_answer_starts_a_new_epoch(start: int) -> None:
    """P-L.158, P-D.8.7, P-F.5.7, P-F.5.9: also when the sequence that would be next is 0 because it
    wrapped.
    """
    producer = ProducerStateForTest(next_sequence=start)
    producer.drain(0, 3)
    producer.expired(0)
    producer.answered(0)
    assert producer.state["epoch_bumps"] == 1
    assert producer.drain(1)
    assert producer.sequence(1) == (4000, 1, 0)


def test_a_batch_refused_for_good_restarts_those_behind_it() -> None:
    """P-F.5.8, P-F.5.9, P-F.5.10, P-D.7.4, P-L.137: sequences 0, c1, c1 + c2 under the next epoch;
    one at a time.
    """
    producer = ProducerStateForTest(next_sequence=40)
    for name, count in enumerate((5, 2, 3)):
        producer.drain(name, count)
    producer.failed(0)
    assert producer.state["needs_bump"] == 1
    assert producer.sequence(1) == (4000, 0, 45), "its request is still under way (P-F.5.12)"
    assert not producer.drain(9)
    for name in (1, 2):
        assert producer.can_retry(name, OUT_OF_ORDER)
        producer.answered(name)
    assert (producer.sequence(1), producer.sequence(2)) == ((4000, 1, 0), (4000, 1, 2))
    assert producer.state["epoch_bumps"] == 1
    assert not producer.drain(2), "one after the other, in order (P-D.7.4, P-F.5.10)"
    assert producer.drain(1)
    producer.acked(1)
    assert producer.drain(2)
    producer.acked(2)
    assert producer.drain(9)
    assert producer.sequence(9) == (4000, 1, 5)


def test_an_out_of_order_answer_to_a_later_batch_is_just_retried() -> None:
    """P-F.5.6: an earlier one is still to come."""
    producer = ProducerStateForTest(next_sequence=10)
    producer.drain(0, 2)
    producer.drain(1, 2)
    assert producer.can_retry(1, OUT_OF_ORDER)
    assert producer.state["needs_bump"] == 0
    assert producer.can_retry(0, OUT_OF_ORDER)
    assert producer.state["needs_bump"] == 1


def test_a_broker_that_forgot_the_producer_gets_a_new_epoch() -> None:
    """P-L.137, P-F.5.5."""
    producer = ProducerStateForTest(next_sequence=10)
    producer.drain(0, 2)
    assert producer.can_retry(0, UNKNOWN_PRODUCER_ID, log_start_offset=-1)
    assert producer.state["needs_bump"] == 0
    assert producer.can_retry(0, UNKNOWN_PRODUCER_ID, log_start_offset=0)
    producer.answered(0)
    assert producer.sequence(0) == (4000, 1, 0)
    producer.drain(0)
    assert producer.can_retry(0, UNKNOWN_PRODUCER_ID, log_start_offset=0)
    assert producer.state["needs_bump"] == 0, "it was reset already"


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    """P-F.5.9: and nothing is sent, or rewritten, before it is there."""
    producer = ProducerStateForTest(producer_epoch=MAX_EPOCH, next_sequence=7)
    producer.drain(0, 2)
    producer.drain(1, 3)
    assert producer.can_retry(0, UNKNOWN_PRODUCER_ID, log_start_offset=0)
    producer.answered(0)
    producer.answered(1)
    assert (producer.state["producer_id"], producer.state["ids_asked_for"]) == (-1, 1)
    for _ in range(3):
        producer.settle()
        assert not producer.drain(0)
        assert producer.sequence(0) == (4000, MAX_EPOCH, 7)
    assert producer.state["ids_asked_for"] == 1
    producer.set_producer_id(4001, 0)
    producer.settle()
    assert (producer.sequence(0), producer.sequence(1)) == ((4001, 0, 0), (4001, 0, 2))
    assert producer.drain(0)
    producer.acked(0)
    assert producer.drain(1)
    producer.acked(1)
    assert producer.drain(2)
    assert producer.sequence(2) == (4001, 0, 5)


def test_with_nothing_in_flight_a_new_producer_id_is_simply_adopted() -> None:
    """P-F.5.9, P-D.7.6."""
    producer = ProducerStateForTest(producer_epoch=MAX_EPOCH, next_sequence=7)
    producer.drain(0, 2)
    producer.failed(0)
    assert not producer.drain(1)
    producer.settle()
    producer.set_producer_id(4001, 0)
    producer.settle()
    assert producer.drain(1)
    assert producer.sequence(1) == (4001, 0, 0)
