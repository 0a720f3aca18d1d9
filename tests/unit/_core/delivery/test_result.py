"""Results of batches: complete once, wake everybody, callbacks before done, splits (P-D.9,
P-D.10).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastprod._core.testing.delivery_doors import IncompleteForTest as Incomplete

PENDING, DELIVERING, DONE, SPLIT = range(4)
PATIENCE_SECONDS = 30.0
PATIENCE_MS = PATIENCE_SECONDS * 1000
# More than there are stripes to wait on.
MANY = 200


def until(done: Callable[[], bool]) -> None:
    """Give other threads the processor until `done()`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"not done after {PATIENCE_SECONDS} s"
        time.sleep(0.0005)


@pytest.fixture
def results() -> Incomplete:
    return Incomplete()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_result_is_completed_once(results: Incomplete) -> None:
    """P-D.10.3, P-L.72: what comes later is ignored."""
    result = results.new()
    assert results.look(result)["state"] == PENDING
    assert results.complete(result)
    assert not results.complete(result)
    assert results.look(result)["state"] == DONE
    assert (results.batch_count, results.order()) == (0, [])


def test_a_complete_result_needs_no_waiting(results: Incomplete) -> None:
    result = results.new()
    results.complete(result)
    assert results.wait(result, 0)


def test_a_wait_ends_at_its_deadline(results: Incomplete) -> None:
    result = results.new()
    began = time.monotonic()
    assert not results.wait(result, 20)
    assert time.monotonic() - began >= 0.020
    assert results.look(result)["waiters"] == 0


def test_one_completion_wakes_every_waiter(results: Incomplete) -> None:
    result = results.new(count=1000)
    with ThreadPoolExecutor(8) as threads:
        waiters = [threads.submit(results.wait, result, PATIENCE_MS) for _ in range(8)]
        until(lambda: results.look(result)["waiters"] == 8)
        results.complete(result)
        assert all(waiter.result(PATIENCE_SECONDS) for waiter in waiters)
    assert results.look(result)["waiters"] == 0


def test_waiters_of_other_results_go_on_waiting(results: Incomplete) -> None:
    """They share a lock, and are woken in vain."""
    all_results = [results.new() for _ in range(MANY)]
    for result in all_results[1:]:
        results.complete(result)
    assert not results.wait(all_results[0], 1)
    with ThreadPoolExecutor(1) as threads:
        waiter = threads.submit(results.wait, all_results[0], PATIENCE_MS)
        until(lambda: results.look(all_results[0])["waiters"] == 1)
        for _ in range(MANY):
            results.complete(results.new())
        assert not waiter.done()
        results.complete(all_results[0])
        assert waiter.result(PATIENCE_SECONDS)


def test_callbacks_come_before_done(results: Incomplete) -> None:
    """P-D.10.4, P-A.3.13: waiters are released when the callbacks have run, in append order."""
    result = results.new(count=3)
    for future, index in ((100, 0), (101, 2), (102, 1)):
        assert results.attach(result, future, index)
    assert results.complete(result)
    assert results.look(result)["state"] == DELIVERING
    assert not results.complete(result)
    assert not results.wait(result, 1)
    assert results.batch_count == 1
    assert results.take_ready() == [(result, [(100, 0), (101, 2), (102, 1)])]
    assert not results.wait(result, 1)
    results.delivered(result)
    assert results.look(result)["state"] == DONE
    assert results.wait(result, 0)
    assert (results.batch_count, results.look(result)["refs"]) == (0, 1)


def test_only_what_is_pending_misses_its_deadline(results: Incomplete) -> None:
    """Looking and noting are one step: what was complete before it leaves no note behind that would
    keep a transaction from its commit, and what is pending at it cannot be committed."""
    told, delivering, split, pending = (results.new(2) for _ in range(4))
    results.complete(told)
    results.attach(delivering, 100, 0)
    results.complete(delivering)
    children = [results.new_child(split) for _ in range(2)]
    results.split(split, list(zip((0, 1), children, strict=True)))
    results.complete(children[0])
    for late, index in ((told, 0), (delivering, 1), (split, 0)):
        assert results.miss(late, index) is None
    assert not results.has_missed
    assert results.miss(split, 1) == children[1]
    assert results.has_missed
    assert results.miss(pending) == pending
    results.take_ready()
    results.delivered(delivering)


def test_waiters_are_released_by_the_delivery_of_the_callbacks(results: Incomplete) -> None:
    result = results.new()
    results.attach(result, 1, 0)
    with ThreadPoolExecutor(2) as threads:
        waiter = threads.submit(results.wait, result, PATIENCE_MS)
        flusher = threads.submit(results.wait_all, results.last_number, PATIENCE_MS)
        until(lambda: results.look(result)["waiters"] == 1)
        results.complete(result)
        ((taken, _),) = results.take_ready(PATIENCE_MS)
        assert not waiter.done()
        assert not flusher.done()
        results.delivered(taken)
        assert waiter.result(PATIENCE_SECONDS)
        assert flusher.result(PATIENCE_SECONDS)


def test_a_future_comes_too_late_for_the_queue_once_the_result_is_complete(
    results: Incomplete,
) -> None:
    done, delivering, split = results.new(), results.new(), results.new(2)
    results.complete(done)
    results.attach(delivering, 1, 0)
    results.complete(delivering)
    child = results.new_child(split)
    results.split(split, [(0, child)])
    for result in (done, delivering, split):
        assert not results.attach(result, 2, 0)
    assert results.attach(child, 2, 0)


def test_many_futures_keep_their_order(results: Incomplete) -> None:
    result = results.new(count=1000)
    futures = [(number * 8 + 8, number) for number in range(1000)]
    for future, index in futures:
        assert results.attach(result, future, index)
    results.complete(result)
    assert results.take_ready() == [(result, futures)]


def test_the_completion_queue_is_in_the_order_of_completion(results: Incomplete) -> None:
    first, second, third = results.new(), results.new(), results.new()
    for result in (first, second, third):
        results.attach(result, result, 0)
    for result in (second, third, first):
        results.complete(result)
    taken = results.take_ready()
    assert [result for result, _ in taken] == [second, third, first]
    assert results.take_ready() == []


def test_a_result_without_callbacks_does_not_enter_the_queue(results: Incomplete) -> None:
    results.complete(results.new())
    assert results.take_ready() == []


def test_a_taker_is_woken_by_a_completion_and_by_closing(results: Incomplete) -> None:
    result = results.new()
    results.attach(result, 7, 0)
    with ThreadPoolExecutor(1) as threads:
        taker = threads.submit(results.take_ready, PATIENCE_MS)
        results.complete(result)
        assert taker.result(PATIENCE_SECONDS) == [(result, [(7, 0)])]
        taker = threads.submit(results.take_ready, PATIENCE_MS)
        results.close()
        assert taker.result(PATIENCE_SECONDS) == []


def test_what_is_in_a_closed_queue_can_be_taken(results: Incomplete) -> None:
    result = results.new()
    results.attach(result, 7, 0)
    results.close()
    results.complete(result)
    assert results.take_ready(PATIENCE_MS) == [(result, [(7, 0)])]


def test_a_descriptor_is_written_when_the_queue_becomes_non_empty(
    results: Incomplete, pipe: tuple[int, int]
) -> None:
    """What an event loop reads; one write however many complete until it looks."""
    reader, writer = pipe
    results.signal_at(writer)
    for round_of_three in range(2):
        for _ in range(3):
            result = results.new()
            results.attach(result, 1, 0)
            results.complete(result)
        assert os.read(reader, 100) == (1).to_bytes(8, "little"), round_of_three
        assert len(results.take_ready()) == 3
    results.complete(results.new())
    with pytest.raises(BlockingIOError):
        os.read(reader, 100)


def test_a_split_sends_futures_to_the_child_that_has_their_record(results: Incomplete) -> None:
    """P-D.9.5: 10 records become 4, 1 and 5."""
    parent = results.new(count=10)
    for index in (9, 0, 4, 3, 5):
        results.attach(parent, 100 + index, index)
    children = [results.new_child(parent, count) for count in (4, 1, 5)]
    results.split(parent, list(zip((0, 4, 5), children, strict=True)))
    assert results.look(parent)["state"] == SPLIT
    assert results.wait(parent, 0), "who waits for the parent must look at the children"
    assert not results.complete(parent)
    assert [results.resolve(parent, index) for index in range(10)] == [
        *[(children[0], index) for index in range(4)],
        (children[1], 0),
        *[(children[2], index) for index in range(5)],
    ]
    for child in reversed(children):
        assert results.complete(child)
    assert results.take_ready() == [
        (children[2], [(109, 4), (105, 0)]),
        (children[1], [(104, 0)]),
        (children[0], [(100, 0), (103, 3)]),
    ]


def test_a_split_wakes_those_who_wait_for_the_parent(results: Incomplete) -> None:
    parent = results.new(count=2)
    with ThreadPoolExecutor(1) as threads:
        waiter = threads.submit(results.wait, parent, PATIENCE_MS)
        until(lambda: results.look(parent)["waiters"] == 1)
        children = [results.new_child(parent), results.new_child(parent)]
        results.split(parent, [(0, children[0]), (1, children[1])])
        assert waiter.result(PATIENCE_SECONDS)


def test_a_flush_waits_for_the_children_in_the_parents_place(results: Incomplete) -> None:
    """P-D.9.6, P-A.7.5: and does not wait for what was sent after it."""
    before, parent, after = results.new(), results.new(count=2), results.new()
    number = results.look(parent)["number"]
    first, second = results.new_child(parent), results.new_child(parent)
    assert results.order() == [before, first, second, parent, after]
    results.split(parent, [(0, first), (1, second)])
    assert results.order() == [before, first, second, after]
    results.complete(before)
    results.complete(first)
    assert not results.wait_all(number, 1)
    results.complete(second)
    assert results.wait_all(number, 0)
    assert not results.wait_all(results.last_number, 1)
    results.complete(after)
    assert results.wait_all(results.last_number, 0)


def test_children_are_urgent_because_somebody_waits_for_them_longer(results: Incomplete) -> None:
    parent = results.new(count=2)
    assert results.look(results.new_child(parent))["urgent"] == 1


def test_a_flush_does_not_wait_for_a_gap_to_close(results: Incomplete) -> None:
    """Completion out of order: the oldest left decides."""
    oldest, middle, newest = results.new(), results.new(), results.new()
    results.complete(middle)
    assert not results.wait_all(results.look(oldest)["number"], 1)
    results.complete(oldest)
    assert results.wait_all(results.look(middle)["number"], 0)
    assert not results.wait_all(results.look(newest)["number"], 1)


def test_an_abandoned_child_is_waited_for_by_nobody(results: Incomplete) -> None:
    parent = results.new(count=2)
    child = results.new_child(parent)
    results.abandon(child)
    results.release(child)
    assert results.order() == [parent]
    assert results.batch_count == 1


def test_pending_records_are_counted_up_to_a_number(results: Incomplete) -> None:
    first = results.new(count=5)
    second = results.new(count=7)
    results.new(count=100)
    number = results.look(second)["number"]
    assert results.record_count(number) == 12
    results.complete(first)
    assert results.record_count(number) == 7
    assert results.record_count(results.last_number) == 107


def test_a_parent_keeps_its_children_alive(results: Incomplete) -> None:
    parent = results.new(count=2)
    child = results.new_child(parent, count=2)
    results.split(parent, [(0, child)])
    assert results.look(child)["refs"] == 2
    results.complete(child)
    results.release(parent)
    assert results.look(child)["refs"] == 1


def test_waiting_ends_the_linger_once(results: Incomplete) -> None:
    """The first who waits wakes the I/O thread; it need not hear more."""
    result = results.new()
    results.urge(result)
    results.urge(result)
    assert (results.look(result)["urgent"], results.urges_heard) == (1, 1)
    done = results.new()
    results.complete(done)
    results.urge(done)
    assert results.urges_heard == 1


def test_only_results_of_batches_are_driven(results: Incomplete) -> None:
    """What stands for a record whose deadline has passed has no partition to be sent to, and a
    flush of another thread may find it on the list."""
    batch = results.new()
    results.drive(batch)
    assert results.drives_begun == 1
    results.drive(results.new_child(batch))
    assert results.drives_begun == 2
    results.drive(results.new_apart(batch))
    assert results.drives_begun == 2


def test_threads_that_send_wait_and_flush_all_come_to_an_end(results: Incomplete) -> None:
    """Whatever the order of completing and waiting, nobody sleeps through it."""
    count, senders = 600, 4
    made: list[int] = []
    lock = threading.Lock()
    stop = threading.Event()

    def send(number: int) -> int:
        waited = 0
        for i in range(count):
            result = results.new()
            if (i + number) % 3 == 0:
                results.attach(result, i + 1, 0)
            with lock:
                made.append(result)
            if i % 2:
                waited += results.wait(result, PATIENCE_MS)
            elif i % 100 == 0:
                assert results.wait_all(results.last_number, PATIENCE_MS)
        return waited

    def complete() -> int:
        completed = 0
        while completed < count * senders:
            with lock:
                batch, made[:] = list(made), []
            completed += sum(results.complete(result) for result in batch)
        return completed

    def deliver() -> int:
        delivered = 0
        while True:
            taken = results.take_ready(PATIENCE_MS)
            for result, futures in taken:
                delivered += len(futures)
                results.delivered(result)
            if not taken and stop.is_set():
                return delivered

    with ThreadPoolExecutor(senders + 2) as threads:
        completer, deliverer = threads.submit(complete), threads.submit(deliver)
        waited = [threads.submit(send, number) for number in range(senders)]
        assert [each.result(PATIENCE_SECONDS) for each in waited] == [count // 2] * senders
        assert completer.result(PATIENCE_SECONDS) == count * senders
        assert results.wait_all(results.last_number, PATIENCE_MS)
        stop.set()
        results.close()
        assert deliverer.result(PATIENCE_SECONDS) == count * senders // 3
    assert (results.batch_count, results.order()) == (0, [])
