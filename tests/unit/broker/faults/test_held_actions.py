"""HeldActions: what waits for its time, and what a reset does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fastprod.broker.faults.held_actions import HeldActions
from fastprod.broker.threads.clock import SystemClock
from fastprod.broker.threads.purgatory import DelayedOperation, DelayedOperationPurgatory

HOUR_MS = 3_600_000


@pytest.fixture
def purgatory() -> Iterator[DelayedOperationPurgatory]:
    made = DelayedOperationPurgatory("test-timer", SystemClock(), lambda error: None)
    yield made
    made.close()


def test_what_is_held_goes_on_at_the_release_and_nothing_is_held_later(
    purgatory: DelayedOperationPurgatory,
) -> None:
    held, done = HeldActions(purgatory), []
    for number in range(3):
        held.hold(HOUR_MS if number else 0, lambda number=number: done.append(number))  # type: ignore[misc]
    assert (done, held.is_released) == ([0], False)
    held.release()
    held.release()
    assert (done, held.is_released) == ([0, 1, 2], True)
    held.hold(HOUR_MS, lambda: done.append(3))
    assert done == [0, 1, 2, 3]
    assert purgatory.parked_count == 0


def test_without_a_timer_nothing_is_held() -> None:
    done = []
    HeldActions().hold(HOUR_MS, lambda: done.append(1))
    assert done == [1]


def test_a_release_in_the_middle_of_the_parking_leaves_nothing_behind(
    purgatory: DelayedOperationPurgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, done = HeldActions(purgatory), []
    park = purgatory.run_later

    def park_and_release(delay_ms: float, action: Callable[[], None]) -> DelayedOperation:
        held.release()
        return park(delay_ms, action)

    monkeypatch.setattr(purgatory, "run_later", park_and_release)
    held.hold(HOUR_MS, lambda: done.append(1))
    assert done == [1]
    assert purgatory.parked_count == 0
