"""Delayed operations: parked, found, completed once (contract B-A5.6)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Hashable, Iterator
from unittest.mock import Mock

import pytest

from fastprod.broker.threads.clock import FakeClock, SystemClock
from fastprod.broker.threads.purgatory import (
    DelayedAction,
    DelayedOperation,
    DelayedOperationPurgatory,
)

PATIENCE_S = 20.0


class Operation(DelayedOperation):
    """Ready when told so; counts how often it is completed, and how."""

    def __init__(self, delay_ms: float | None = None) -> None:
        super().__init__(delay_ms)
        self.is_ready = False
        self.completed = 0
        self.expired = 0
        self.looked_at: list[Hashable | None] = []
        self.done = threading.Event()

    def try_complete(self, key: Hashable | None = None) -> bool:
        self.looked_at.append(key)
        return self.is_ready and self.force_complete()

    def on_complete(self) -> None:
        self.completed += 1
        self.done.set()

    def on_expiry(self) -> None:
        self.expired += 1
        self.done.set()


class World:
    """A purgatory with a clock that stands still, and the errors it was told of."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.errors: list[BaseException] = []
        self.purgatory = DelayedOperationPurgatory("test-timer", self.clock, self.errors.append)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.purgatory.close()


def test_what_is_ready_is_never_parked(world: World) -> None:
    operation = Operation()
    operation.is_ready = True
    assert world.purgatory.complete_or_watch(operation, ["key"])
    assert operation.completed == 1
    assert world.purgatory.parked_count == 0


def test_only_operations_of_the_key_that_changed_are_looked_at(world: World) -> None:
    here, there = Operation(), Operation()
    assert not world.purgatory.complete_or_watch(here, ["a", "b"])
    assert not world.purgatory.complete_or_watch(there, ["c"])
    here.is_ready = there.is_ready = True
    assert world.purgatory.check_and_complete("b") == 1
    assert (here.completed, there.completed) == (1, 0)
    assert here.looked_at[-1] == "b"
    assert world.purgatory.parked_count == 1


def test_a_completed_operation_is_forgotten_by_all_its_keys(world: World) -> None:
    operation = Operation()
    world.purgatory.complete_or_watch(operation, ["a", "b"])
    operation.is_ready = True
    assert world.purgatory.check_and_complete("a") == 1
    assert world.purgatory.check_and_complete("b") == 0
    assert operation.completed == 1


def test_what_becomes_ready_while_it_is_parked_is_seen_by_the_second_look(world: World) -> None:
    """B-A5.6: 1. not ready. 2. it becomes ready, nobody is parked. 3. it is parked."""

    class Late(Operation):
        def try_complete(self, key: Hashable | None = None) -> bool:
            ready = super().try_complete(key)
            self.is_ready = True
            return ready

    operation = Late()
    assert world.purgatory.complete_or_watch(operation, ["key"])
    assert operation.completed == 1
    assert world.purgatory.parked_count == 0


def test_an_operation_expires_at_its_deadline_and_not_before(world: World) -> None:
    operation = Operation(100)
    world.purgatory.complete_or_watch(operation, ["key"])
    world.clock.await_waiters(1)
    world.clock.advance(99.9)
    world.clock.await_waiters(1)
    assert not operation.is_completed
    world.clock.advance(0.1)
    assert operation.done.wait(PATIENCE_S)
    assert (operation.completed, operation.expired) == (0, 1)


def test_operations_expire_in_the_order_of_their_deadlines(world: World) -> None:
    order: list[int] = []
    for delay_ms in (30, 10, 20):
        world.purgatory.run_later(delay_ms, functools.partial(order.append, delay_ms))
    for count in range(1, 4):
        world.clock.await_waiters(1)
        world.clock.advance(10)
        while len(order) < count:
            world.clock.await_waiters(1)
    assert order == [10, 20, 30]


def test_what_is_to_be_tried_again_later_is_forgotten_at_the_end(world: World) -> None:
    done: list[str] = []
    assert world.purgatory.retry_later(10, functools.partial(done.append, "again"))
    world.clock.await_waiters(1)
    world.clock.advance(10)
    while not done:
        world.clock.await_waiters(1)
    assert world.purgatory.retry_later(10, functools.partial(done.append, "never"))
    world.purgatory.close()
    assert not world.purgatory.retry_later(10, functools.partial(done.append, "never"))
    assert done == ["again"]


def test_the_timer_thread_is_started_by_the_first_deadline(world: World) -> None:
    world.purgatory.complete_or_watch(Operation(None), ["key"])
    assert not world.purgatory.has_timer_thread
    world.purgatory.complete_or_watch(Operation(1000), ["key"])
    assert world.purgatory.has_timer_thread


def test_an_operation_is_completed_once_whoever_hurries() -> None:
    purgatory = DelayedOperationPurgatory("test-timer", SystemClock(), lambda error: None)
    operations = [Operation(delay_ms) for delay_ms in (0.1, 0.5, 1.0) * 50]
    start = threading.Barrier(4)

    def complete() -> None:
        start.wait()
        for _ in range(200):
            purgatory.check_and_complete("key")

    threads = [threading.Thread(target=complete) for _ in range(3)]
    for thread in threads:
        thread.start()
    start.wait()
    for operation in operations:
        purgatory.complete_or_watch(operation, ["key", operation])
        operation.is_ready = True
    for thread in threads:
        thread.join()
    purgatory.close()
    assert [each.completed + each.expired for each in operations] == [1] * len(operations)
    assert purgatory.parked_count == 0


def test_close_completes_what_is_parked_and_what_comes_later(world: World) -> None:
    parked, late = Operation(1000), Operation(1000)
    world.purgatory.complete_or_watch(parked, ["key"])
    world.purgatory.close()
    assert parked.completed == 1
    assert world.purgatory.complete_or_watch(late, ["key"])
    assert late.completed == 1


def test_a_withdrawn_operation_is_never_completed(world: World) -> None:
    operation = Operation(10)
    world.purgatory.complete_or_watch(operation, ["key"])
    assert world.purgatory.withdraw(operation)
    assert not world.purgatory.withdraw(operation)
    operation.is_ready = True
    assert world.purgatory.check_and_complete("key") == 0
    assert (operation.completed, operation.expired) == (0, 0)


def test_an_operation_that_fails_does_not_keep_others_from_completion(world: World) -> None:
    class Broken(Operation):
        def on_complete(self) -> None:
            raise RuntimeError("broken")

    broken, sound = Broken(), Operation()
    world.purgatory.complete_or_watch(broken, ["key"])
    world.purgatory.complete_or_watch(sound, ["key"])
    broken.is_ready = sound.is_ready = True
    assert world.purgatory.check_and_complete("key") == 2
    assert sound.completed == 1
    assert [str(error) for error in world.errors] == ["broken"]


def test_an_action_waits_for_its_time_alone() -> None:
    calls: list[int] = []
    action = DelayedAction(10, lambda: calls.append(1))
    assert not action.try_complete()
    assert action.expire()
    assert not action.force_complete()
    assert calls == [1]


def test_thousands_that_were_completed_early_do_not_stay_with_the_timer(world: World) -> None:
    for _ in range(2500):
        operation = Operation(60_000)
        world.purgatory.complete_or_watch(operation, ["key"])
        operation.is_ready = True
        world.purgatory.check_and_complete("key")
    assert len(world.purgatory._timer._heap) < 1500


def test_nobody_is_completed_who_is_withdrawn_by_his_key(world: World) -> None:
    first, second, other = Operation(1000), Operation(), Operation()
    for operation, keys in ((first, ("a", "b")), (second, ("b",)), (other, ("a",))):
        world.purgatory.complete_or_watch(operation, keys)
    assert world.purgatory.withdraw_all("b") == 2
    assert world.purgatory.withdraw_all("b") == 0
    assert world.purgatory.parked_count == 1
    first.is_ready = second.is_ready = True
    assert world.purgatory.check_and_complete("a") == 0
    world.clock.advance(2000)
    world.purgatory.close()
    assert (first.completed, first.expired, second.completed, other.completed) == (0, 0, 0, 1)


def test_without_a_thread_nobody_waits_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is completed at once, and the end of the purgatory does not wait for a thread."""
    operation = Operation(1000)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no more threads")))
        assert world.purgatory.complete_or_watch(operation, ("key",))
    assert "no thread can be had" in caplog.text
    assert (operation.completed, world.purgatory.parked_count) == (1, 0)
    assert not world.purgatory.has_timer_thread
    later = Operation(1000)
    assert not world.purgatory.complete_or_watch(later, ("key",))
    assert world.purgatory.has_timer_thread
