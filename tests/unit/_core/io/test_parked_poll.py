"""What ends the poll of a server's loop that has parked: a part of a frame does not (B-A4)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fastprod._core.io.server_selector import PollEvents, ServerSelector
from support.oracle.framing import frame

PATIENCE_S = 20.0
NOTHING = PollEvents([], [], [])
LARGE = 100_000  # more than the system's smallest parts, and counted in the pool


class Pair:
    """A selector and clients connected to it."""

    def __init__(self, force_poll: bool, pool_bytes: int = -1) -> None:
        self.selector = ServerSelector(-1, force_poll, pool_bytes)
        self.clients: list[socket.socket] = []

    def open(self) -> tuple[int, socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname(), PATIENCE_S)
            accepted, _ = listener.accept()
        accepted.setblocking(False)
        self.clients.append(client)
        return self.selector.register(accepted.detach()), client

    def parked_poll(self, timeout_ms: float = PATIENCE_S * 1000, idle_ms: float = -1) -> PollEvents:
        self.selector.park()
        return self.selector.poll(timeout_ms, idle_ms)

    def await_held(self, least_bytes: int) -> None:
        """From another thread: until the poll has read the first part of a large frame."""
        deadline = time.monotonic() + PATIENCE_S
        while self.selector.held_bytes < least_bytes:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def close(self) -> None:
        self.selector.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def pair(force_poll: bool) -> Iterator[Pair]:
    with contextlib.closing(Pair(force_poll)) as opened:
        yield opened


@contextlib.contextmanager
def meanwhile(*steps: object) -> Iterator[None]:
    """Run the steps in another thread, and see that they did not fail."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            for step in steps:
                step()  # type: ignore[operator]
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert failed == []


@contextlib.contextmanager
def dribbling(client: socket.socket) -> Iterator[None]:
    """Send a large frame byte by byte meanwhile, as long as this lasts."""
    ended = threading.Event()
    sent = iter(frame(bytes(LARGE)))

    def dribble() -> None:
        while not ended.wait(0.001):
            client.sendall(bytes([next(sent)]))

    with meanwhile(dribble):
        try:
            yield
        finally:
            ended.set()


def test_parts_of_a_frame_are_read_in_one_poll(pair: Pair) -> None:
    channel, client = pair.open()
    sent = frame(bytes(LARGE))
    client.sendall(sent[:90_000])
    with meanwhile(
        lambda: pair.await_held(90_000 - 4),
        lambda: client.sendall(sent[90_000:-1]),
        lambda: time.sleep(0.01),
        lambda: client.sendall(sent[-1:]),
    ):
        events = pair.parked_poll()
    assert [(each.channel_id, len(each)) for each in events.receives] == [(channel, LARGE)]


def test_without_park_a_part_ends_it(pair: Pair) -> None:
    """Nobody could end its wait then: `wake` looks whether the thread has parked."""
    _, client = pair.open()
    client.sendall(frame(b"whole")[:5])
    assert pair.selector.poll(PATIENCE_S * 1000) == NOTHING


def test_a_wake_between_two_parts_ends_it(pair: Pair) -> None:
    _, client = pair.open()
    client.sendall(frame(bytes(LARGE))[:90_000])
    began_s = time.monotonic()
    with meanwhile(lambda: pair.await_held(90_000 - 4), pair.selector.wake):
        assert pair.parked_poll(2 * PATIENCE_S * 1000) == NOTHING
    assert time.monotonic() - began_s < PATIENCE_S
    assert pair.selector.poll(0) == NOTHING  # the wake has been taken, or ends this one


def test_the_time_out_holds_while_parts_arrive(pair: Pair) -> None:
    _, client = pair.open()
    with dribbling(client):
        began = time.monotonic()
        events = pair.parked_poll(50)
        took_s = time.monotonic() - began
    assert events == NOTHING
    assert took_s >= 0.049


def test_another_channels_idle_expiry_does_not_wait_for_the_rest(pair: Pair) -> None:
    idle, _ = pair.open()
    _, client = pair.open()
    with dribbling(client):
        deadline = time.monotonic() + PATIENCE_S
        events = NOTHING
        while not events.disconnected and time.monotonic() < deadline:
            events = pair.parked_poll(-1, 200)
    assert [(each.channel_id, each.reason) for each in events.disconnected] == [(idle, "EXPIRED")]


def test_without_room_in_the_pool_the_caller_is_asked(force_poll: bool) -> None:
    """Only the caller knows what has been given back since; the wait would last for ever."""
    with contextlib.closing(Pair(force_poll, pool_bytes=LARGE)) as pair:
        first, first_client = pair.open()
        first_client.sendall(frame(bytes(LARGE)))
        kept = pair.parked_poll().receives
        assert [each.channel_id for each in kept] == [first]
        second, client = pair.open()
        client.sendall(frame(bytes(LARGE)))
        assert pair.parked_poll() == NOTHING
        kept.clear()
        received: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while not received and time.monotonic() < deadline:
            received = [each.channel_id for each in pair.parked_poll().receives]
        assert received == [second]
