"""The threads that handle requests (B-A5)."""

from __future__ import annotations

import threading

import pytest

from fastprod.broker.network.handler_pool import KafkaRequestHandlerPool
from fastprod.broker.network.request import Request
from fastprod.errors import IllegalStateError
from support.broker.request_samples import Desk, ListeningHandler
from support.processes.leak_guard import nothing_is_left as nothing_is_left

PATIENCE_S = 20.0


def test_requests_that_wait_are_handled_before_the_end() -> None:
    """B-A5.5."""
    desk = Desk()
    handler = ListeningHandler(Request.close_connection)
    pool = KafkaRequestHandlerPool(desk.channel, handler, 3, desk.clock)
    requests = [desk.request() for _ in range(50)]
    for request in requests:
        assert desk.offer(request)
    pool.start()
    pool.shutdown(PATIENCE_S)
    pool.shutdown(PATIENCE_S)
    assert sorted(map(id, handler.handled)) == sorted(map(id, requests))
    assert len(desk.answers.responses) == 50
    assert set(handler.threads) <= {f"fastprod-request-handler-1-{i}" for i in range(3)}
    assert desk.channel.request_queue_size == 0


def test_several_requests_are_handled_at_once() -> None:
    """A barrier that two handlers must reach together."""
    desk = Desk()
    barrier = threading.Barrier(2, timeout=PATIENCE_S)

    def meet(_: Request) -> None:
        barrier.wait()

    handler = ListeningHandler(meet)
    pool = KafkaRequestHandlerPool(desk.channel, handler, 2, desk.clock)
    pool.start()
    for _ in range(4):
        assert desk.offer(desk.request())
    pool.shutdown(PATIENCE_S)
    assert len(handler.handled) == 4
    assert handler.failures == []


def test_a_request_in_progress_is_waited_for_so_long_and_no_longer() -> None:
    """B-A5.5."""
    desk = Desk()
    entered, leave = threading.Event(), threading.Event()

    def do(request: Request) -> None:
        entered.set()
        leave.wait(PATIENCE_S)

    pool = KafkaRequestHandlerPool(desk.channel, ListeningHandler(do), 1, desk.clock)
    pool.start()
    assert desk.offer(desk.request())
    assert entered.wait(PATIENCE_S)
    with pytest.raises(TimeoutError, match=r"handler-1-0 still handling a request after 0\.01 s"):
        pool.shutdown(0.01)
    leave.set()
    pool.shutdown(PATIENCE_S)


def test_a_handler_cannot_wait_for_its_own_end() -> None:
    desk = Desk()
    pool: KafkaRequestHandlerPool
    raised: list[Exception] = []

    def do(request: Request) -> None:
        try:
            pool.shutdown(PATIENCE_S)
        except IllegalStateError as error:
            raised.append(error)

    pool = KafkaRequestHandlerPool(desk.channel, ListeningHandler(do), 1, desk.clock)
    pool.start()
    assert desk.offer(desk.request())
    pool.shutdown(PATIENCE_S)
    assert len(raised) == 1


def test_idleness_is_a_share_of_all_threads_time() -> None:
    """B-A9 RequestHandlerAvgIdlePercent."""
    desk = Desk()
    pool = KafkaRequestHandlerPool(desk.channel, ListeningHandler(), 2, desk.clock)
    assert pool.avg_idle_ratio == 0
    pool.start()
    for _ in range(10):
        assert desk.offer(desk.request())
    pool.shutdown(PATIENCE_S)
    assert 0 < pool.avg_idle_ratio <= 1
    assert pool.thread_count == 2


def test_a_pool_that_was_never_started_ends_at_once() -> None:
    desk = Desk()
    KafkaRequestHandlerPool(desk.channel, ListeningHandler(), 2, desk.clock).shutdown(PATIENCE_S)
    assert desk.channel.request_queue_size == 0


def test_a_pool_needs_a_thread() -> None:
    desk = Desk()
    with pytest.raises(ValueError, match="1 thread or more, not 0"):
        KafkaRequestHandlerPool(desk.channel, ListeningHandler(), 0, desk.clock)
