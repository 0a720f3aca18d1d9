"""OverflowWorker: what takes long, one after the other."""

from __future__ import annotations

import logging
import threading
import time
from unittest.mock import Mock

import pytest

from fastprod.broker.threads.overflow_worker import OverflowWorker

PATIENCE_S = 20.0


def has_a_thread() -> bool:
    return any(each.name == "test-overflow" for each in threading.enumerate())


def test_actions_run_in_order_on_one_thread_that_begins_with_the_first() -> None:
    worker = OverflowWorker("test-overflow")
    assert not has_a_thread()
    ran: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(100):
        assert worker.put(lambda n=number: ran.append((n, threading.current_thread().name)))  # type: ignore[misc]
    assert worker.put(done.set)
    assert done.wait(PATIENCE_S)
    assert ran == [(number, "test-overflow") for number in range(100)]
    worker.close()
    assert not has_a_thread()


def test_a_failed_action_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    worker = OverflowWorker("test-overflow")
    done = threading.Event()

    def fail() -> None:
        raise ValueError("so what")

    with caplog.at_level(logging.ERROR):
        worker.put(fail)
        worker.put(done.set)
        assert done.wait(PATIENCE_S)
    worker.close()
    assert "so what" in caplog.text


def test_closing_waits_for_what_runs_and_forgets_what_waits() -> None:
    worker = OverflowWorker("test-overflow")
    started, go_on, ran = threading.Event(), threading.Event(), []

    def first() -> None:
        started.set()
        assert go_on.wait(PATIENCE_S)
        ran.append("first")

    worker.put(first)
    worker.put(lambda: ran.append("second"))
    assert started.wait(PATIENCE_S)
    closing = threading.Thread(target=worker.close)
    closing.start()
    deadline = time.monotonic() + PATIENCE_S
    while not worker.is_closed:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert not worker.put(lambda: ran.append("third"))
    assert closing.is_alive()
    go_on.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert ran == ["first"]
    worker.close()


def test_only_so_many_actions_wait() -> None:
    worker = OverflowWorker("test-overflow", capacity_count=2)
    started, go_on = threading.Event(), threading.Event()

    def first() -> None:
        started.set()
        assert go_on.wait(PATIENCE_S)

    assert worker.put(first)
    assert started.wait(PATIENCE_S)
    assert worker.put(go_on.set)
    assert worker.put(go_on.set)
    assert not worker.put(go_on.set)
    go_on.set()
    worker.close()
    assert worker.is_closed


def test_without_a_thread_nothing_is_taken_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = OverflowWorker("test-overflow")
    ran = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no more threads")))
        assert not worker.put(ran.set)
    assert "no thread can be had" in caplog.text
    assert worker.put(ran.set)
    assert ran.wait(PATIENCE_S)
    worker.close()
