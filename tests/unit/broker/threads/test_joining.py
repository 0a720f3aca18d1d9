"""await_end: bounded, and no deadlock with oneself."""

from __future__ import annotations

import threading

import pytest

from fastprod.broker.threads import joining
from fastprod.broker.threads.joining import await_end


def test_none_and_an_ended_thread_are_no_wait() -> None:
    await_end(None)
    ended = threading.Thread(target=lambda: None)
    ended.start()
    await_end(ended)
    assert not ended.is_alive()


def test_a_thread_that_ends_itself_does_not_wait_for_itself() -> None:
    await_end(threading.current_thread())


def test_a_thread_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "END_TIMEOUT_S", 0.01)
    go = threading.Event()
    stuck = threading.Thread(target=go.wait, args=(20.0,), name="upkeep", daemon=True)
    stuck.start()
    try:
        with pytest.raises(TimeoutError, match=r"upkeep has not ended within 0\.01 s"):
            await_end(stuck)
    finally:
        go.set()
        stuck.join(20.0)
