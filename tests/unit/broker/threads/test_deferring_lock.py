"""DeferringLock: actions are done after the release, once, in order (B-A5.6)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod.broker.threads.deferring_lock import DeferringLock


def test_what_is_put_off_is_done_without_the_lock_and_in_order() -> None:
    lock = DeferringLock()
    done: list[str] = []

    def again() -> None:
        with lock:
            done.append("inside")
            lock.defer(lambda: done.append("third"))

    with lock:
        lock.defer(lambda: done.append("first"))
        lock.defer(again)
        assert done == []
    assert done == ["first", "inside", "third"]
    with lock:
        pass
    assert done == ["first", "inside", "third"]


def test_one_that_fails_keeps_no_other_from_being_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock = DeferringLock()
    done: list[str] = []
    with lock:
        lock.defer(lambda: 1 // 0)
        lock.defer(lambda: done.append("done"))
    assert done == ["done"]
    assert "ZeroDivisionError" in caplog.text


def test_it_is_done_too_when_the_holder_fails() -> None:
    lock = DeferringLock()
    done: list[str] = []

    def fail() -> None:
        with lock:
            lock.defer(lambda: done.append("done"))
            raise KeyError("no")

    with pytest.raises(KeyError):
        fail()
    assert done == ["done"]


def test_what_the_next_holder_puts_off_is_done_once() -> None:
    """Although it comes just as the one before, who had put nothing off, has released the lock."""
    lock = DeferringLock()
    done: list[str] = []

    class Overtaken:
        """Another thread holds the lock, and releases it, before `release` has returned."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._is_first = True

        def acquire(self) -> None:
            self._lock.acquire()

        def release(self) -> None:
            self._lock.release()
            if self._is_first:
                self._is_first = False
                with lock:
                    lock.defer(lambda: done.append("once"))

    overtaken: Any = Overtaken()
    lock._lock = overtaken
    with lock:
        pass
    assert done == ["once"]
