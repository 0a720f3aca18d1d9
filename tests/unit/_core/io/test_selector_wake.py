"""What other threads and other processes may do to a sleeping Selector."""

from __future__ import annotations

import os
import threading

import pytest

from fastprod._core.testing.selector_harness import SelectorForTest
from support.oracle.framing import frame
from support.oracle.loopback import Loopback, read_exactly

# Waking.


def test_a_wake_ends_an_unbounded_poll(loopback: Loopback) -> None:
    """P-G.1.1."""
    polled = threading.Event()

    def wake_until_polled() -> None:
        while not polled.wait(0.001):
            loopback.selector.wake()

    waker = threading.Thread(target=wake_until_polled)
    waker.start()
    try:
        assert loopback.poll(timeout_ms=-1) == ([], [], [], [])
    finally:
        polled.set()
        waker.join()


def test_a_wake_while_nobody_sleeps_is_harmless(loopback: Loopback) -> None:
    """P-G.1.1."""
    for _ in range(100):
        loopback.selector.wake()
    assert loopback.poll() == ([], [], [], [])
    channel, peer = loopback.open()
    peer.sendall(frame(b"x"))
    loopback.until(lambda: loopback.received[channel] == [b"x"])


@pytest.mark.parametrize("poster_count", [1, 2])
def test_no_wake_is_lost_between_parking_and_sleeping(force_poll: bool, poster_count: int) -> None:
    """Each piece of work is posted at another moment of the poller's round: a lost wake would let
    the poller sleep for its whole bound."""
    total = 40_000
    selector = SelectorForTest(force_poll)
    posted: list[int] = []

    def post() -> None:
        posted.append(selector.post(total // poster_count, 60_000))

    posters = [threading.Thread(target=post) for _ in range(poster_count)]
    for poster in posters:
        poster.start()
    sleeps, lost = selector.serve_posts(total, 10_000)
    for poster in posters:
        poster.join()
    selector.close()
    assert lost == 0
    assert sum(posted) == total
    assert sleeps > total // 1_000  # a busy machine lets the posters do much at a time


# Forking.


def run_in_child(selector: SelectorForTest) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            selector.abandon()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_that_abandons_leaves_the_parent_undisturbed(loopback: Loopback) -> None:
    """Design, Fork: no socket leaves the parent's epoll set and no connection is shut down."""
    channel, peer = loopback.open()
    run_in_child(loopback.selector)
    peer.sendall(frame(b"still here"))
    assert loopback.poll(timeout_ms=-1).receives == [(channel, b"still here")]
    assert loopback.selector.send(channel, [frame(b"and here")]) == "OK"
    assert read_exactly(peer, 12) == frame(b"and here")
    peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        peer.recv(1)


def test_a_child_of_a_child_closes_no_descriptor_that_was_its_parents(loopback: Loopback) -> None:
    """A fork in the middle of a connect; the number is somebody else's when the child forks."""
    opening = os.open(os.devnull, os.O_RDONLY)
    loopback.selector.note_opening(opening)
    loopback.selector.abandon()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opening)
    others = os.open(os.devnull, os.O_RDONLY)
    numbers = os.dup2(others, opening) if others != opening else others
    loopback.selector.abandon()
    assert os.fstat(numbers)
    for each in {others, numbers}:
        os.close(each)


def test_a_child_that_keeps_a_copy_does_not_keep_a_closed_connection(loopback: Loopback) -> None:
    """A copy in a child must neither hide the end from the peer nor haunt the parent's polls."""
    channel, peer = loopback.open()
    other, other_peer = loopback.open()
    release_reader, release_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(release_writer)
        os.read(release_reader, 1)
        os._exit(0)
    try:
        peer.sendall(frame(b"unread"))
        loopback.selector.close_channel(channel)
        peer.settimeout(10)
        assert peer.recv(1) == b""
        other_peer.sendall(frame(b"x"))
        loopback.until(lambda: loopback.received[other] == [b"x"])
        waited_ns = loopback.selector.counters()["io_wait_ns"]
        assert loopback.poll(timeout_ms=20) == ([], [], [], [])
        assert loopback.selector.counters()["io_wait_ns"] - waited_ns >= 10_000_000
    finally:
        os.close(release_writer)
        os.close(release_reader)
        os.waitpid(pid, 0)
