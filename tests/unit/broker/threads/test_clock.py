"""SystemClock and FakeClock: what time it is, and waiting for it."""

from __future__ import annotations

import threading
import time

import pytest

from fastprod.broker.threads.clock import Clock, FakeClock, SystemClock

PATIENCE_S = 30.0
MS = 1_000_000


def wait_once(clock: Clock, deadline_ns: int | None) -> None:
    condition = threading.Condition()
    with condition:
        clock.wait(condition, deadline_ns)


def test_the_systems_clock_is_the_computers() -> None:
    clock = SystemClock()
    before = (time.monotonic_ns(), time.time_ns() // MS)
    now = (clock.monotonic_ns(), clock.time_ms())
    after = (time.monotonic_ns(), time.time_ns() // MS)
    assert before[0] <= now[0] <= after[0]
    assert before[1] <= now[1] <= after[1]


def test_the_systems_clock_waits_for_a_deadline_and_not_for_one_that_has_passed() -> None:
    clock = SystemClock()
    deadline_ns = clock.monotonic_ns() + 5 * MS
    wait_once(clock, deadline_ns)
    assert clock.monotonic_ns() >= deadline_ns
    wait_once(clock, 0)
    assert clock.seconds_until(0) == 0
    remaining_s = clock.seconds_until(clock.monotonic_ns() + 60_000 * MS)
    assert remaining_s is not None
    assert 0 < remaining_s <= 60
    clock.subscribe(lambda: None)()


def test_the_systems_clock_waits_for_a_notification() -> None:
    clock = SystemClock()
    condition = threading.Condition()
    told = threading.Event()

    def wait() -> None:
        with condition:
            told.set()
            clock.wait(condition, None)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert told.wait(PATIENCE_S)
    with condition:
        condition.notify_all()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(time_ms=5000)
    assert (clock.monotonic_ns(), clock.time_ms()) == (0, 5000)
    clock.advance(1.5)
    assert (clock.monotonic_ns(), clock.time_ms()) == (1_500_000, 5001)
    with pytest.raises(ValueError, match="never back"):
        clock.advance(-1)


def test_a_deadline_that_has_passed_is_not_waited_for() -> None:
    clock = FakeClock()
    clock.advance(10)
    wait_once(clock, 10 * MS)
    assert clock.seconds_until(10 * MS) == 0
    assert clock.seconds_until(11 * MS) is None


def test_advancing_releases_those_whose_time_has_come_and_no_others() -> None:
    clock = FakeClock()
    threads = [
        threading.Thread(target=wait_once, args=(clock, deadline_ms * MS), daemon=True)
        for deadline_ms in (10, 20, 30)
    ]
    for thread in threads:
        thread.start()
    clock.await_waiters(3)
    clock.advance(20)
    for thread in threads[:2]:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    clock.await_waiters(1)
    with pytest.raises(TimeoutError, match="1 of 2 threads"):
        clock.await_waiters(2, timeout_s=0)
    clock.advance(10)
    threads[2].join(PATIENCE_S)
    assert not threads[2].is_alive()


def test_a_notification_ends_a_fake_wait_without_a_deadline() -> None:
    clock = FakeClock()
    condition = threading.Condition()

    def wait() -> None:
        with condition:
            clock.wait(condition, None)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    clock.await_waiters(1)
    clock.advance(1_000_000)
    clock.await_waiters(1)
    with condition:
        condition.notify_all()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with pytest.raises(TimeoutError):
        clock.await_waiters(1, timeout_s=0)


def test_subscribers_hear_that_time_has_moved_until_they_leave() -> None:
    clock = FakeClock()
    heard: list[int] = []
    leave = clock.subscribe(lambda: heard.append(clock.monotonic_ns()))
    clock.advance(3)
    leave()
    leave()
    clock.advance(3)
    assert heard == [3 * MS]
