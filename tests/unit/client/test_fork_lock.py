"""fork_lock: in the child of a fork it is free, unless the forking thread itself holds it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fastprod.client.fork_lock import fork_lock
from fastprod.client.lazy_thread import LazyThread
from fastprod.client.listeners import Listeners
from fastprod.client.metrics.call_counters import CallCounters
from support.engine.network_world import World
from support.processes.forking import Child

PATIENCE_S = 20.0


class Holder:
    """A thread that holds a lock within a `with` block."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._holds = threading.Event()
        self._may_end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with self._lock:
            self._holds.set()
            self._may_end.wait(PATIENCE_S)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._holds.wait(PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        self._may_end.set()
        self._thread.join(PATIENCE_S)


def is_free(lock: threading.RLock) -> bool:
    """Whether another thread can take it."""
    taken = []

    def take() -> None:
        taken.append(lock.acquire(timeout=0.01))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join(PATIENCE_S)
    return bool(taken[0])


def is_taken_in_a_child(lock: threading.RLock) -> bool:
    """Whether the forking thread can take it there; another one may be taken for its holder."""
    return bool(Child(lambda: lock.acquire(timeout=0.1)).result())


def test_what_another_thread_held_is_free_in_the_child_alone() -> None:
    lock = fork_lock()
    with Holder(lock):
        assert is_taken_in_a_child(lock)
        assert not is_free(lock)
    assert is_free(lock)


def test_what_the_forking_thread_held_it_gives_back_itself() -> None:
    lock = fork_lock()

    def in_child() -> list[bool]:
        held = not is_free(lock)
        lock.release()
        return [held, is_free(lock)]

    with lock:
        assert Child(in_child).result() == [True, True]
        assert not is_free(lock)


def metadata_lock() -> threading.RLock:
    return World().metadata._lock


def transactions_lock() -> threading.RLock:
    manager = World(transactional_id="ledger").client.transactions
    assert manager is not None
    return manager._lock


OWNERS: dict[str, Callable[[], threading.RLock]] = {
    "Metadata": metadata_lock,
    "TransactionManager": transactions_lock,
    "Listeners": lambda: Listeners()._lock,
    "LazyThread": lambda: LazyThread(lambda: None, "x")._lock,
    "CallCounters": lambda: CallCounters()._lock,
}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_call_that_a_handler_forked_in_goes_on_in_the_child(owner: str) -> None:
    """Another thread has what the call takes next."""
    lock = OWNERS[owner]()
    with Holder(lock):
        assert is_taken_in_a_child(lock)
