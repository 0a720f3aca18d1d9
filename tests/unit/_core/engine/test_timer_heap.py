"""Timers: the first one due comes first, whatever was set, moved and cleared."""

from __future__ import annotations

import random

import pytest

from fastprod._core.testing.engine_doors import TimersForTest


def test_nothing_is_due_where_nothing_is_set() -> None:
    timers = TimersForTest(2)
    assert timers.next_ns() is None
    assert timers.pop_due(2**63 - 1) is None
    timers.clear(0)
    timers.set(1, 5)
    timers.clear(1)
    timers.clear(1)
    assert timers.next_ns() is None


def test_what_is_due_comes_in_order_and_what_is_not_stays() -> None:
    timers = TimersForTest(4)
    for number, due_ns in enumerate([30, 10, 40, 20]):
        timers.set(number, due_ns)
    assert timers.next_ns() == 10
    assert timers.pop_due(9) is None
    assert [timers.pop_due(30) for _ in range(4)] == [1, 3, 0, None]
    assert timers.next_ns() == 40


def test_a_timer_that_is_set_anew_counts_once() -> None:
    timers = TimersForTest(2)
    timers.set(0, 10)
    timers.set(1, 20)
    timers.set(0, 30)
    timers.set(0, 30)
    assert [timers.pop_due(100) for _ in range(3)] == [1, 0, None]


@pytest.mark.parametrize("seed", range(20))
def test_as_a_dictionary_that_is_searched(seed: int) -> None:
    pick = random.Random(seed)
    timers = TimersForTest(50)
    model: dict[int, int] = {}
    for _ in range(3000):
        number = pick.randrange(50)
        step = pick.random()
        if step < 0.5:
            model[number] = pick.randrange(1000)
            timers.set(number, model[number])
        elif step < 0.7:
            model.pop(number, None)
            timers.clear(number)
        else:
            now = pick.randrange(1000)
            popped = timers.pop_due(now)
            if popped is None:
                assert min(model.values(), default=1000) > now
            else:
                first = min(model.values())
                assert (model.pop(popped), first <= now) == (first, True)
        assert timers.next_ns() == min(model.values(), default=None)
