"""ChildEnd: what is called at the end of a child of multiprocessing, and of no other process."""

from __future__ import annotations

import multiprocessing.process
import multiprocessing.util
import threading
from typing import Any

import pytest

from fastprod.client.child_end import ChildEnd


def watched(end: ChildEnd) -> list[Any]:
    """What multiprocessing is to call, since it is watched twice."""
    registry: dict[Any, Any] = vars(multiprocessing.util)["_finalizer_registry"]
    before = set(registry)
    end.watch()
    end.watch()
    return [registry[key] for key in registry.keys() - before]


def wait_for_its_thread() -> None:
    for thread in threading.enumerate():
        if thread.name == "fastprod-child-end":
            thread.join(30)


def test_a_process_that_multiprocessing_did_not_start_is_not_watched() -> None:
    assert watched(ChildEnd(lambda: None)) == []


def test_a_child_calls_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
    (finalizer,) = watched(ChildEnd(lambda: calls.append(1)))
    finalizer()
    finalizer()
    wait_for_its_thread()
    assert calls == [1]


def test_it_is_called_when_the_other_threads_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    may_end = threading.Event()

    def last() -> None:
        may_end.wait(30)
        calls.append("thread")

    monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
    (finalizer,) = watched(ChildEnd(lambda: calls.append("end")))
    threading.Thread(target=last).start()
    finalizer()
    may_end.set()
    wait_for_its_thread()
    assert calls == ["thread", "end"]


def test_a_child_whose_function_has_returned_is_watched_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
    monkeypatch.setattr(multiprocessing.util, "_exiting", True)
    assert watched(ChildEnd(lambda: calls.append(1))) == []
    wait_for_its_thread()
    assert calls == [1]


def test_it_is_called_where_the_system_gives_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls: list[int] = []
    monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
    monkeypatch.setattr(threading.Thread, "start", fails)
    (finalizer,) = watched(ChildEnd(lambda: calls.append(1)))
    finalizer()
    assert calls == [1]


def test_a_fork_that_leaves_by_atexit_is_left_to_that(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
    (finalizer,) = watched(ChildEnd(lambda: calls.append(1)))
    monkeypatch.setattr(threading.main_thread(), "is_alive", lambda: False)
    finalizer()
    wait_for_its_thread()
    assert calls == []
