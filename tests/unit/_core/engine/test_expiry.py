"""Expiry and abort (contract P-D.8, P-D.10).

P-L.49, P-L.51, P-L.53, P-L.54, P-L.74, P-L.116-120 as far as steps without a network
show them; 52 is about aborted transactions. What a peer sees of it is in tests/faults.
"""

from __future__ import annotations

import pytest

from fastprod._core.delivery.result import ERR_EXPIRED
from fastprod._core.engine.control_queue import EventKind
from fastprod.errors import DeliveryTimeoutError, KafkaError, RecordTooLargeError
from support.engine.sender_steps import TOPIC, Steps, outcome

LARGEST_INT = 2**31 - 1
TIMEOUT_MS = 3200
MESSAGE_TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
CLUSTER_AUTHORIZATION_FAILED = 31


def steps(partitions: int = 1, **config: object) -> Steps:
    settings = {"delivery_timeout_ms": TIMEOUT_MS, "request_timeout_ms": 100, **config}
    return Steps([(0, 0)] * partitions, **settings)  # type: ignore[arg-type]


def is_expired(future: object) -> bool:
    return isinstance(outcome(future), DeliveryTimeoutError)  # type: ignore[arg-type]


@pytest.mark.parametrize("muted", [False, True])
@pytest.mark.parametrize("linger_ms", [0, 3000])
def test_a_queued_batch_expires_when_its_time_is_over(muted: bool, linger_ms: int) -> None:
    """P-L.53 testExpiredBatchSingle, P-L.74 testBatchExpiration, P-D.8.1: exactly at creation plus
    timeout, muted or not, and not when linger is over."""
    sender = steps(linger_ms=linger_ms)
    sender.door.mute(TOPIC, 0, muted)
    future = sender.send()
    for ms in (linger_ms, TIMEOUT_MS - linger_ms - 1):
        sender.pass_time(ms)
        sender.door.expire()
        assert outcome(future) is None
    sender.pass_time(1)
    sender.door.expire()
    error = outcome(future)
    assert isinstance(error, DeliveryTimeoutError)
    assert error.elapsed_ms == TIMEOUT_MS
    assert error.delivery_timeout_ms == TIMEOUT_MS
    assert error.attempts == 0
    assert sender.memory_is_back()
    assert sender.nothing_goes()


def test_a_timeout_of_int_max_is_no_problem() -> None:
    """P-L.53 testExpiredBatchSingleMaxValue, P-D.8.6."""
    sender = steps(delivery_timeout_ms=LARGEST_INT, linger_ms=0)
    sender.door.mute(TOPIC, 0, True)
    future = sender.send()
    sender.pass_time(LARGEST_INT - 1)
    sender.door.expire()
    assert outcome(future) is None
    sender.pass_time(1)
    sender.door.expire()
    assert is_expired(future)


def test_all_batches_over_their_time_expire_together() -> None:
    """P-L.54 testExpiredBatches, P-D.8.1: up to the first that is not."""
    sender = steps(batch_size=100)
    old = [sender.send(b"x" * 50) for _ in range(3)]
    sender.pass_time(10)
    young = sender.send(b"x" * 50)
    assert len(sender.queue()) == 4
    sender.pass_time(TIMEOUT_MS - 10)
    sender.door.expire()
    assert all(map(is_expired, old))
    assert outcome(young) is None
    assert sender.values(sender.drain()) == [b"x" * 50]


def test_a_retried_batch_expires_at_creation_plus_timeout() -> None:
    """P-L.54 testExpiredBatchesRetry, P-D.8.1, P-D.2.8: backing off and muted."""
    sender = steps(retry_backoff_ms=100)
    future = sender.send()
    sender.pass_time(1000)
    sender.door.fail(sender.drain())
    sender.pass_time(TIMEOUT_MS - 1000 - 1)
    sender.door.mute(TOPIC, 0, True)
    sender.door.expire()
    assert outcome(future) is None
    sender.pass_time(1)
    sender.door.expire()
    error = outcome(future)
    assert isinstance(error, DeliveryTimeoutError)
    assert error.attempts == 1
    assert sender.memory_is_back()


@pytest.mark.parametrize("answer", ["success", "error", "too large", "lost"])
def test_a_batch_expires_in_flight_and_its_answer_is_taken_in_silence(answer: str) -> None:
    """P-L.116 testInflightBatchesExpireOnDeliveryTimeout, P-L.119 testExpiredBatchDoesNotRetry,
    testExpiredBatchDoesNotSplitOnMessageTooLargeError, testTooLargeBatchesAreSafelyRemoved;
    P-D.8.1 to P-D.8.4: no retry, no split, the first outcome stands; its memory goes back once its
    request is over, and once."""
    sender = steps()
    futures = [sender.send(), sender.send()]
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    errors = [outcome(each) for each in futures]
    assert all(isinstance(each, DeliveryTimeoutError) for each in errors)
    assert not sender.memory_is_back(), "the request may still be leaving"
    if answer == "success":
        sender.succeed(handle, 7)
    elif answer == "error":
        sender.refuse(handle, NOT_ENOUGH_REPLICAS)
    elif answer == "too large":
        sender.refuse(handle, MESSAGE_TOO_LARGE)
    else:
        sender.door.fail(handle)
    assert sender.memory_is_back()
    assert [str(outcome(each)) for each in futures] == [str(each) for each in errors]
    assert sender.nothing_goes()
    assert sender.counters()["batches_split"] == 0
    assert sender.counters()["records_failed"] == 2


def test_an_expired_batch_keeps_its_bytes_while_its_request_is_under_way() -> None:
    """P-D.8.4: whoever asks for memory gets other memory; the frame stays what it was."""
    sender = steps(buffer_memory=8 * 4096, batch_size=4096)
    for _ in range(3):
        sender.send(b"old" * 1000)
    handle = sender.drain()
    frame = sender.door.frame(handle)
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    while sender.door.append(TOPIC, b"new" * 1000, None, 0) is not None:
        pass
    assert sender.door.frame(handle) == frame
    assert sender.values(handle) == [b"old" * 1000]
    sender.succeed(handle)
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    assert sender.memory_is_back()


def test_an_answer_that_comes_in_time_wins_over_an_expiry_not_looked_at() -> None:
    """P-D.8.3: what was acknowledged is not reported as lost."""
    sender = steps()
    future = sender.send()
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS)
    sender.succeed(handle)
    sender.door.expire()
    assert not isinstance(outcome(future), KafkaError)


@pytest.mark.parametrize("answer", ["lost", "error"])
def test_what_is_over_its_time_is_not_retried(answer: str) -> None:
    """P-D.8.2, P-F.4.3: an error in the very turn in which the batch expires."""
    sender = steps()
    future = sender.send()
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS)
    if answer == "lost":
        sender.door.fail(handle)
    else:
        sender.refuse(handle, NOT_ENOUGH_REPLICAS)
    assert isinstance(outcome(future), DeliveryTimeoutError)
    assert sender.queue() == []
    assert sender.memory_is_back()


def test_what_is_over_its_time_is_not_split() -> None:
    """P-L.119 testExpiredBatchDoesNotSplitOnMessageTooLargeError, P-D.9.1."""
    sender = steps()
    futures = [sender.send(), sender.send()]
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS)
    sender.refuse(handle, MESSAGE_TOO_LARGE)
    assert all(isinstance(outcome(each), RecordTooLargeError) for each in futures)
    assert sender.memory_is_back()


def test_looking_again_is_due_when_the_next_batch_expires() -> None:
    """P-L.120 testResetNextBatchExpiry, P-D.8.6: in flight or not; nothing, nothing to look at."""
    sender = steps(2)
    assert sender.door.expire() is None
    sender.send(partition=0)
    assert sender.door.expire() == TIMEOUT_MS
    sender.pass_time(200)
    sender.send(partition=1)
    sender.drain()
    sender.pass_time(300)
    assert sender.door.expire() == TIMEOUT_MS - 500
    sender.pass_time(TIMEOUT_MS - 500)
    assert sender.door.expire() == 200
    sender.pass_time(200)
    assert sender.door.expire() is None, "a request is under way; no batch is waiting"


def test_a_muted_partition_stays_muted_when_its_batch_expires_in_flight() -> None:
    """P-L.118 testWhenFirstBatchExpireNoSendSecondBatchIfGuaranteeOrder, P-F.3.5: the next one goes
    after the response."""
    sender = steps(max_in_flight_requests_per_connection=1, enable_idempotence=False)
    first = sender.send(b"1")
    handle = sender.drain()
    assert sender.state()["muted"]
    sender.pass_time(TIMEOUT_MS // 2)
    second = sender.send(b"2")
    sender.pass_time(TIMEOUT_MS // 2)
    sender.door.expire()
    assert is_expired(first)
    assert sender.nothing_goes()
    sender.succeed(handle)
    assert not sender.state()["muted"]
    next_one = sender.drain()
    assert sender.values(next_one) == [b"2"]
    sender.succeed(next_one)
    assert not isinstance(outcome(second), KafkaError)


@pytest.mark.parametrize("ending", ["answered", "refused", "lost", "retried"])
def test_every_end_of_a_request_unmutes_its_partitions(ending: str) -> None:
    """P-F.3.5."""
    sender = steps(2, max_in_flight_requests_per_connection=1)
    for partition in (0, 1):
        sender.send(partition=partition)
    handle = sender.drain()
    assert [sender.state(each)["muted"] for each in (0, 1)] == [True, True]
    if ending == "answered":
        sender.succeed(handle)
    elif ending == "refused":
        sender.refuse(handle, 87)
    elif ending == "lost":
        sender.door.fail(handle)
    else:
        sender.refuse(handle, NOT_ENOUGH_REPLICAS)
    assert [sender.state(each)["muted"] for each in (0, 1)] == [False, False]


# Abort (P-D.10).


def test_a_forced_end_fails_everything_drained_or_not() -> None:
    """P-L.51 testAbortIncompleteBatches, P-D.10.1: "Producer is closed forcefully."; slabs of
    requests under way go back once, after them (P-D.8.4)."""
    sender = steps(4, batch_size=200, is_known=True)
    futures = [sender.send(b"x" * 100, index % 4) for index in range(100)]
    sender.drain()
    sender.drain()
    sender.door.throw_away()
    for future in futures:
        error = outcome(future)
        assert isinstance(error, KafkaError)
        assert "Producer is closed forcefully." in str(error)
    assert sender.counters()["records_aborted"] == 100
    assert sender.memory_is_back()


def test_callbacks_of_aborted_records_are_called_once() -> None:
    """P-L.51, P-L.72 testBatchAbort, testBatchCannotAbortTwice, P-D.10.3, P-D.10.4: in order of
    append.
    """
    sender = steps()
    called: list[int] = []
    for number in range(10):
        sender.send().add_errback(lambda error, number: called.append(number), number=number)
    handle = sender.drain()
    sender.door.abort(CLUSTER_AUTHORIZATION_FAILED)
    sender.door.abort(CLUSTER_AUTHORIZATION_FAILED)
    sender.succeed(handle)
    sender.engine.run_deliveries(0)
    sender.engine.run_deliveries(0)
    assert called == list(range(10))
    assert sender.memory_is_back()


def test_what_was_aborted_in_flight_may_still_be_answered() -> None:
    """P-L.112 testCancelInFlightRequestAfterFatalError, P-D.10.3: harmless, and no memory is
    lost.
    """
    sender = steps()
    future = sender.send()
    handle = sender.drain()
    sender.door.abort(CLUSTER_AUTHORIZATION_FAILED)
    error = outcome(future)
    sender.succeed(handle, 3)
    assert outcome(future) == error or str(outcome(future)) == str(error)
    assert sender.counters()["records_acked"] == 0
    assert sender.memory_is_back()


def test_after_an_abort_sequences_start_anew_where_some_are_missing() -> None:
    """P-D.10.1, P-F.5.7: an aborted retry leaves a hole that the next batch would wait at."""
    sender = steps()
    sender.send(b"a")
    sender.door.fail(sender.drain())
    sender.door.abort(CLUSTER_AUTHORIZATION_FAILED)
    sender.send(b"b")
    assert sender.sequences(sender.drain()) == [(1, 0)]


def test_after_an_abort_sequences_go_on_where_none_is_missing() -> None:
    """P-F.5.7: the one under way arrived after all."""
    sender = steps()
    sender.send(b"a")
    handle = sender.drain()
    sender.door.abort(CLUSTER_AUTHORIZATION_FAILED)
    sender.send(b"b")
    assert sender.nothing_goes(), "until it is known whether a was written"
    sender.succeed(handle)
    assert sender.sequences(sender.drain()) == [(0, 1)]


def test_failures_are_told_to_the_control_thread() -> None:
    """P-D.8.2: topic, code, records and partition, for the log."""
    sender = steps(2)
    sender.send(partition=1)
    sender.send(partition=1)
    sender.pass_time(TIMEOUT_MS)
    sender.door.expire()
    (event,) = sender.events(EventKind.ON_FAILED)
    assert (event.code, event.item_count) == (ERR_EXPIRED, 2)
    assert (event.topic, event.partition) == (TOPIC, 1)
