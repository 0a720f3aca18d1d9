"""LazyThread: one thread runs the function, also after a start that was interrupted."""

from __future__ import annotations

import queue
import threading

import pytest

from fastprod.client.lazy_thread import LazyThread
from support.engine.thread_refusal import no_thread

BOUND_S = 30.0


def lazy_thread() -> tuple[LazyThread, queue.SimpleQueue[threading.Thread]]:
    ran = queue.SimpleQueue[threading.Thread]()
    return LazyThread(lambda: ran.put(threading.current_thread()), "lazy"), ran


def test_it_runs_once() -> None:
    lazy, ran = lazy_thread()
    assert lazy.thread is None
    lazy.start()
    lazy.start()
    thread = ran.get(timeout=BOUND_S)
    assert thread is lazy.thread
    assert thread.name == "lazy"
    thread.join(BOUND_S)
    assert ran.empty()


def test_where_the_system_gave_no_thread_the_next_start_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lazy, ran = lazy_thread()
    with no_thread(monkeypatch, "lazy"), pytest.raises(RuntimeError):
        lazy.start()
    assert lazy.thread is None
    lazy.start()
    assert ran.get(timeout=BOUND_S) is lazy.thread


@pytest.mark.parametrize("is_stuck", [False, True])
def test_a_start_that_ctrl_c_ended_keeps_nobody_from_the_next(
    monkeypatch: pytest.MonkeyPatch, *, is_stuck: bool
) -> None:
    """The thread of the first may come late, or never: an event's lock may be left locked."""
    lazy, ran = lazy_thread()
    interrupted: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupt(thread: threading.Thread) -> None:
        interrupted.append(thread)
        if is_stuck:
            thread._started._cond.acquire()  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            lazy.start()
    lazy.start()
    assert ran.get(timeout=BOUND_S) is lazy.thread
    if not is_stuck:
        (late,) = interrupted
        start(late)
        late.join(BOUND_S)
    assert ran.empty()
