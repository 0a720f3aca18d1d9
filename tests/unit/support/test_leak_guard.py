"""What the leak guard must not miss, and what it must not blame a test for."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import leak_guard

NEEDS_PROC = pytest.mark.skipif(not leak_guard._TASKS.exists(), reason="there is no /proc")


@pytest.fixture
def waiting_thread() -> Iterator[threading.Thread]:
    """One that lives as long as the test."""
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    yield thread
    is_over.set()
    thread.join()


@NEEDS_PROC
def test_a_listing_that_ended_early_is_made_again(
    monkeypatch: pytest.MonkeyPatch, waiting_thread: threading.Thread
) -> None:
    """As Linux gives it while a thread that was started earlier ends."""
    listings = 0
    whole = Path.iterdir

    def ends_early(folder: Path) -> Iterator[Path]:
        nonlocal listings
        listings += 1
        return itertools.islice(whole(folder), None if listings > 2 else 1)

    monkeypatch.setattr(Path, "iterdir", ends_early)
    assert waiting_thread.native_id in leak_guard.threads()
    assert listings == 3


class Knot:
    """Something that only the garbage collector frees, with a socket."""

    def __init__(self) -> None:
        self.knot = self
        self.socket = socket.socket()

    def __del__(self) -> None:
        self.socket.close()


def test_what_becomes_a_cycle_while_the_guard_waits_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leak_guard, "COLLECT_S", 0.05)
    before = leak_guard.Census()
    held = [Knot()]
    timer = threading.Timer(0.1, held.clear)
    timer.start()
    assert before.wait_until_nothing_is_left(10) == []
    timer.join()


def test_a_socket_that_another_thread_closes_just_now_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if its number is that of a file by then."""
    one, other = socket.socketpair()
    closed = {one.fileno(), other.fileno()}
    dup = os.dup

    def closed_before(number: int) -> int:
        if number == one.fileno():
            one.close()
        elif number == other.fileno():
            other.close()
            number = null.fileno()
        return dup(number)

    with Path(os.devnull).open() as null:
        open_before = len(list(leak_guard._DESCRIPTORS.iterdir()))
        monkeypatch.setattr(os, "dup", closed_before)
        found = leak_guard.descriptors()
        monkeypatch.undo()
        assert len(list(leak_guard._DESCRIPTORS.iterdir())) == open_before - len(closed)
    assert (one.fileno(), other.fileno()) == (-1, -1)
    assert not closed & {int(each.split()[0]) for each in found}


def test_what_stays_is_told(waiting_thread: threading.Thread) -> None:
    before = leak_guard.Census()
    with socket.socket() as left:
        (told,) = before.wait_until_nothing_is_left(0.05)
        assert f"{left.fileno()} socket" in told
