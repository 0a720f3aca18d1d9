"""RecordFuture: outcome, waiting, callbacks (contract P-A.3.13, P-A.3.15, P-A.2.3 to P-A.2.5)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod._core.delivery.future import RecordFuture
from fastprod._core.testing.delivery_doors import sorted_for_test
from fastprod.errors import RecordCancelledError, RecordTooLargeError
from fastprod.records import RecordMetadata
from support.engine.sender_steps import Steps, offset

NOT_LEADER = 6
MESSAGE_TOO_LARGE = 10


def deliver(steps: Steps) -> int:
    return steps.engine.run_deliveries(0)


def test_a_future_is_made_by_send_alone() -> None:
    with pytest.raises(TypeError, match=r"comes from KafkaProducer.send"):
        RecordFuture()


def test_a_pending_future_is_not_done_and_its_wait_has_a_bound() -> None:
    """P-A.3.13"""
    future = Steps().send()
    assert not future.done()
    assert not future.running()
    with pytest.raises(TimeoutError, match="not acknowledged within 10 ms"):
        future.result(0.01)


def test_the_outcome_names_where_the_record_is() -> None:
    """P-A.2.3, P-A.2.4; P-L.35: base 45 and index 5 make 50."""
    steps = Steps()
    futures = [steps.send(b"12345", key=b"k" if i else None, at_ms=1_000 + i) for i in range(6)]
    steps.answer(steps.drain(), base_offset=45)
    assert futures[5].result(0) == RecordMetadata("t", 0, 50, 1_005, 1, 5)
    assert futures[0].get(0) == RecordMetadata("t", 0, 45, 1_000, -1, 5)
    assert futures[0].succeeded()
    assert not futures[0].failed()
    assert futures[0].exception(0) is None


def test_the_brokers_time_counts_where_the_topic_has_it() -> None:
    """P-A.2.4"""
    steps = Steps()
    future = steps.send(at_ms=7)
    steps.answer(steps.drain(), base_offset=3, log_append_time=99)
    assert future.result(0).timestamp == 99


def test_a_failure_is_raised_by_result_and_returned_by_exception() -> None:
    """P-A.3.13: the Kafka error itself."""
    steps = Steps()
    future = steps.send()
    steps.refuse(steps.drain(), MESSAGE_TOO_LARGE)
    assert future.failed()
    assert isinstance(future.exception(0), RecordTooLargeError)
    with pytest.raises(RecordTooLargeError):
        future.result(0)


def test_a_record_is_taken_back_while_its_batch_has_not_left() -> None:
    """P-A.3.13, as concurrent.futures.Future.cancel: done at once, and a second call says so."""
    steps = Steps()
    future, other = steps.send(b"back"), steps.send(b"goes")
    assert not future.cancelled()
    assert future.cancel()
    assert future.done()
    assert future.cancelled()
    assert not future.running()
    assert future.failed()
    with pytest.raises(RecordCancelledError, match="topic 't', partition 0 was cancelled"):
        future.result()
    handle = steps.drain()
    assert steps.values(handle) == [b"goes"]
    assert other.running()
    steps.succeed(handle, base_offset=70)
    assert offset(other) == 70
    assert future.cancel()
    assert not other.cancel()
    assert isinstance(future.exception(), RecordCancelledError)


def test_what_has_left_is_not_taken_back_even_if_it_is_to_be_sent_again() -> None:
    """It may have been written."""
    steps = Steps(enable_idempotence=False)
    future = steps.send()
    handle = steps.drain()
    assert future.running()
    assert not future.cancel()
    steps.refuse(handle, NOT_LEADER)
    assert len(steps.queue()) == 1
    assert not future.cancel()
    assert not future.cancelled()
    steps.pass_time(1000)
    steps.succeed(steps.drain())
    assert future.succeeded()


def test_the_callbacks_of_a_cancelled_record_have_run_when_cancel_returns() -> None:
    """In the thread that cancels, once; one that is added later runs at once."""
    steps = Steps()
    future, other = steps.send(b"back"), steps.send(b"goes")
    seen: list[Any] = []

    def look(told: RecordFuture) -> None:
        seen.append((threading.get_ident(), told.cancelled(), told.done()))
        future.add_errback(seen.append)

    future.add_done_callback(look)
    future.add_callback(seen.append)
    other.add_callback(seen.append)
    assert future.cancel()
    assert seen[0] == (threading.get_ident(), True, True)
    assert isinstance(seen[1], RecordCancelledError)
    assert len(seen) == 2
    steps.succeed(steps.drain(), base_offset=4)
    deliver(steps)
    assert seen[2:] == [other.result(0)]
    assert other.result(0).offset == 4


def test_who_waits_for_a_record_is_told_that_it_is_cancelled() -> None:
    steps = Steps()
    future, _ = steps.send(b"back"), steps.send(b"goes")
    found: list[BaseException | None] = []
    waiting = threading.Thread(target=lambda: found.append(future.exception(60)))
    waiting.start()
    assert future.cancel()
    waiting.join(30)
    assert isinstance(found[0], RecordCancelledError)


def test_a_cancelled_record_lets_go_of_everything() -> None:
    """Also where its batch has callbacks of others, and where it is the last of its batch."""
    steps = Steps()
    futures = [steps.send(b"%d" % number) for number in range(30)]
    for future in futures[::2]:
        future.add_done_callback(lambda _: None)
    assert all(future.cancel() for future in futures[5:])
    steps.succeed(steps.drain())
    deliver(steps)
    assert all(future.cancel() for future in [steps.send() for _ in range(3)])
    assert steps.memory_is_back()
    assert steps.nothing_goes()
    assert steps.engine.flush(0) is None


def test_it_is_done_only_after_the_callbacks_of_its_batch() -> None:
    """P-A.3.13, P-D.10.4"""
    steps = Steps()
    first, second = steps.send(b"1"), steps.send(b"2")
    seen: list[Any] = []
    second.add_callback(seen.append)
    steps.succeed(steps.drain(), base_offset=8)
    assert not first.done()
    assert seen == []
    assert deliver(steps) == 1
    assert [metadata.offset for metadata in seen] == [9]
    assert first.done()
    assert second.done()


def test_a_wait_that_is_over_says_whether_the_record_or_its_callbacks_took_too_long() -> None:
    steps = Steps()
    first, second = steps.send(), steps.send()
    first.add_callback(lambda _: None)
    steps.succeed(steps.drain())
    with pytest.raises(TimeoutError, match=r"outcome .* is known, but a callback .* within 10 ms"):
        second.result(0.01)
    deliver(steps)
    assert second.result(0).topic == "t"


def test_callbacks_run_in_the_order_of_the_records() -> None:
    """P-A.3.14, P-D.10.4"""
    steps = Steps()
    futures = [steps.send(b"%d" % i) for i in range(20)]
    order: list[int] = []
    for i in reversed(range(20)):
        futures[i].add_callback(lambda _, i=i: order.append(i))
    steps.succeed(steps.drain())
    deliver(steps)
    assert order == list(range(20))


def test_a_callback_that_raises_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """P-A.3.15"""
    steps = Steps()
    future = steps.send()
    seen: list[Any] = []

    def broken(_: RecordMetadata) -> None:
        raise RuntimeError("mine")

    future.add_callback(broken).add_callback(seen.append)
    steps.succeed(steps.drain())
    deliver(steps)
    assert len(seen) == 1
    assert future.succeeded()
    assert "a delivery callback failed" in caplog.text


def test_an_errback_gets_the_error_and_a_callback_does_not() -> None:
    steps = Steps()
    future = steps.send()
    good: list[Any] = []
    bad: list[Any] = []
    future.add_callback(good.append)
    future.add_errback(lambda word, error: bad.append((word, error)), "word")
    steps.refuse(steps.drain(), MESSAGE_TOO_LARGE)
    deliver(steps)
    assert good == []
    assert [(word, type(error)) for word, error in bad] == [("word", RecordTooLargeError)]


def test_a_callback_added_too_late_runs_at_once() -> None:
    steps = Steps()
    future = steps.send()
    steps.succeed(steps.drain(), base_offset=4)
    seen: list[int] = []
    future.add_done_callback(lambda done: seen.append(done.result(0).offset))
    assert seen == [4]


def test_a_callback_may_ask_its_own_future_and_add_another() -> None:
    """To the callback its future is done: it must not wait for itself."""
    steps = Steps()
    future = steps.send()
    seen: list[Any] = []

    def ask(done: RecordFuture) -> None:
        seen.append(done.done())
        seen.append(done.result(0).offset)
        done.add_done_callback(lambda again: seen.append(again.done()))

    future.add_done_callback(ask)
    steps.succeed(steps.drain(), base_offset=6)
    deliver(steps)
    assert seen == [True, 6, True]


@pytest.mark.parametrize(
    "indexes",
    [
        list(range(2000)),
        list(range(2000, 0, -1)),
        [i * 7919 % 2003 for i in range(2000)],
        [5, 1, 5, 1, 5, 1, 3] * 300,
        [1],
        [],
    ],
    ids=["in order", "backwards", "mixed", "several of a record", "one", "none"],
)
def test_callbacks_run_by_record_whatever_the_order_they_came_in(indexes: list[int]) -> None:
    """P-A.3.13: those of one record as they were added; the work does not grow by the square."""
    order, comparisons = sorted_for_test(indexes)
    assert order == sorted(range(len(indexes)), key=indexes.__getitem__)
    assert comparisons <= max(1, len(indexes)) * 30
    if indexes == sorted(indexes):
        assert comparisons <= len(indexes)


def test_callbacks_added_backwards_run_in_the_order_of_sending() -> None:
    steps = Steps()
    seen: list[int] = []
    futures = [steps.send() for _ in range(50)]
    for at in reversed(range(50)):
        futures[at].add_callback(lambda metadata: seen.append(metadata.offset))
    steps.succeed(steps.drain(), base_offset=0)
    deliver(steps)
    assert seen == list(range(50))


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="must be callable, not int"):
        Steps().send().add_callback(3)  # type: ignore[arg-type]


def test_a_waiting_thread_wakes_when_the_batch_is_complete() -> None:
    steps = Steps()
    future = steps.send()
    offsets: list[int] = []
    waiter = threading.Thread(target=lambda: offsets.append(future.result(30).offset))
    waiter.start()
    steps.succeed(steps.drain(), base_offset=11)
    waiter.join(30)
    assert offsets == [11]


def test_its_text_says_what_it_knows() -> None:
    steps = Steps()
    future = steps.send()
    assert repr(future) == "<RecordFuture topic='t' pending>"
    steps.succeed(steps.drain(), base_offset=1)
    assert "offset=1" in repr(future)
