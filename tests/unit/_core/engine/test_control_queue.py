"""Events between the I/O thread and the control thread: in order, none lost, every wait bounded."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from fastprod._core.testing.engine_doors import EventQueueForTest as EventQueue

PATIENCE_MS = 30_000.0
PATIENCE_SECONDS = 30.0
END = -1
"""Kind of the event that a taker ends with."""


def test_events_come_out_as_they_went_in() -> None:
    queue = EventQueue()
    queue.push(1, 7, 2**63 - 1, b"\x00data")
    queue.push(102, data=b"")
    queue.push(-5)
    assert queue.count == 3
    assert queue.take() == (1, 7, 2**63 - 1, b"\x00data")
    assert queue.take() == (102, -1, 0, b"")
    assert queue.take() == (-5, -1, 0, None)
    assert queue.take() is None
    assert queue.count == 0


def test_an_event_has_its_own_copy_of_the_data() -> None:
    queue = EventQueue()
    big = bytes(range(256)) * 4000
    for _ in range(3):
        queue.push(1, data=bytes(bytearray(big)))
    del big
    for _ in range(3):
        taken = queue.take()
        assert taken is not None
        assert taken[3] == bytes(range(256)) * 4000


def test_an_event_that_memory_ran_out_for_is_left_out() -> None:
    queue = EventQueue()
    queue.push(1)
    queue.push_nothing()
    queue.push(2)
    assert queue.count == 2
    taken = [queue.take(), queue.take(), queue.take()]
    assert [event and event[0] for event in taken] == [1, 2, None]


def test_the_queue_may_run_empty_and_go_on() -> None:
    queue = EventQueue()
    for number in range(100):
        queue.push(number)
        queue.push(-number)
        first, second = queue.take(), queue.take()
        assert (first and first[0], second and second[0]) == (number, -number)
        assert queue.take() is None


def test_a_wait_ends_at_its_deadline() -> None:
    queue = EventQueue()
    began = time.monotonic()
    assert queue.take(timeout_ms=20) is None
    assert time.monotonic() - began >= 0.020


def test_a_taker_is_woken_by_an_event() -> None:
    queue = EventQueue()
    with ThreadPoolExecutor(1) as threads:
        taker = threads.submit(queue.take, PATIENCE_MS)
        queue.push(9)
        taken = taker.result(PATIENCE_SECONDS)
    assert taken is not None
    assert taken[0] == 9


def test_a_queue_that_goes_away_frees_what_is_in_it() -> None:
    """Under the address sanitizer a leak or a double free would show here."""
    queue = EventQueue()
    for number in range(1000):
        queue.push(number, data=bytes(100))
    assert queue.count == 1000


def test_many_threads_lose_nothing_and_keep_each_pushers_order() -> None:
    queue = EventQueue()
    start = threading.Barrier(6)
    taken: list[list[tuple[int, int]]] = [[], []]

    def push(pusher: int) -> None:
        start.wait(PATIENCE_SECONDS)
        for number in range(3000):
            queue.push(pusher, number)

    def take(mine: list[tuple[int, int]]) -> None:
        start.wait(PATIENCE_SECONDS)
        while (event := queue.take(PATIENCE_MS)) is not None and event[0] != END:
            mine.append(event[:2])

    with ThreadPoolExecutor(6) as threads:
        pushers = [threads.submit(push, pusher) for pusher in range(4)]
        takers = [threads.submit(take, mine) for mine in taken]
        for pusher in pushers:
            pusher.result(PATIENCE_SECONDS)
        for _ in takers:
            queue.push(END)
        for taker in takers:
            taker.result(PATIENCE_SECONDS)
    everything = sorted([event for mine in taken for event in mine])
    assert everything == [(pusher, number) for pusher in range(4) for number in range(3000)]
    for mine in taken:
        by_pusher = defaultdict(list)
        for number_of_pusher, number in mine:
            by_pusher[number_of_pusher].append(number)
        assert all(numbers == sorted(numbers) for numbers in by_pusher.values())
    assert queue.count == 0
