"""SideTrack: what takes long, one after the other."""

from __future__ import annotations

import logging
import threading
from unittest.mock import Mock

import pytest

from fastprod.broker.side_track import SideTrack

PATIENCE_S = 20.0


def test_actions_run_in_order_on_one_thread_that_begins_with_the_first() -> None:
    before = threading.active_count()
    track = SideTrack("test-side-track")
    assert threading.active_count() == before
    ran: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(100):
        assert track.put(lambda n=number: ran.append((n, threading.current_thread().name)))  # type: ignore[misc]
    assert track.put(done.set)
    assert done.wait(PATIENCE_S)
    assert ran == [(number, "test-side-track") for number in range(100)]
    track.close()
    assert threading.active_count() == before


def test_a_failed_action_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    track = SideTrack("test-side-track")
    done = threading.Event()

    def fail() -> None:
        raise ValueError("so what")

    with caplog.at_level(logging.ERROR):
        track.put(fail)
        track.put(done.set)
        assert done.wait(PATIENCE_S)
    track.close()
    assert "so what" in caplog.text


def test_closing_waits_for_what_runs_and_forgets_what_waits() -> None:
    track = SideTrack("test-side-track")
    started, go_on, ran = threading.Event(), threading.Event(), []

    def first() -> None:
        started.set()
        assert go_on.wait(PATIENCE_S)
        ran.append("first")

    track.put(first)
    track.put(lambda: ran.append("second"))
    assert started.wait(PATIENCE_S)
    closing = threading.Thread(target=track.close)
    closing.start()
    while track.put(lambda: ran.append("third")):
        pass
    go_on.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    ran_at_the_end = [each for each in ran if each != "third"]
    assert ran_at_the_end == ["first"]
    track.close()


def test_only_so_many_actions_wait() -> None:
    track = SideTrack("test-side-track", capacity_count=2)
    started, go_on = threading.Event(), threading.Event()

    def first() -> None:
        started.set()
        assert go_on.wait(PATIENCE_S)

    assert track.put(first)
    assert started.wait(PATIENCE_S)
    assert track.put(go_on.set)
    assert track.put(go_on.set)
    assert not track.put(go_on.set)
    go_on.set()
    track.close()
    assert track.is_closed


def test_without_a_thread_nothing_is_taken_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    track = SideTrack("test-side-track")
    ran = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no more threads")))
        assert not track.put(ran.set)
    assert "no thread can be had" in caplog.text
    assert track.put(ran.set)
    assert ran.wait(PATIENCE_S)
    track.close()
