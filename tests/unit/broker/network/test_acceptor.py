"""Acceptor (contract B-A2) with real sockets, and Processors that take them or not."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

from fastprod.broker.config import BrokerConfig
from fastprod.broker.network import acceptor as acceptor_module
from fastprod.broker.network.acceptor import Acceptor, Listener
from fastprod.broker.network.connection import Address
from fastprod.broker.network.connection_quotas import ConnectionQuotas
from fastprod.broker.threads.clock import FakeClock
from fastprod.errors import IllegalStateError
from support.broker.sockets import PATIENCE_S, is_ended, until
from support.processes.leak_guard import nothing_is_left as nothing_is_left

NAME = "PLAINTEXT"


class Taker:
    """A Processor that keeps what it is given, up to `room` sockets."""

    def __init__(self, quotas: ConnectionQuotas, room: int = 1000) -> None:
        self._quotas = quotas
        self._changed = threading.Condition()
        self._room = room
        self._stopping = False
        self.error: Exception | None = None
        self.taken: list[socket.socket] = []
        self._addresses: list[str] = []
        self.calls: list[str] = []

    def accept(
        self,
        sock: socket.socket,
        may_block: bool,
        peer_address: Address | None = None,
        local_address: Address | None = None,
    ) -> bool:
        assert peer_address == sock.getpeername(), "as accept(2) told it"
        assert local_address == sock.getsockname()
        with self._changed:
            if self.error is not None:
                raise self.error
            while len(self.taken) >= self._room and not self._stopping:
                if not may_block:
                    return False
                self._changed.wait()
            if self._stopping:
                return False
            assert peer_address is not None
            self.taken.append(sock)
            self._addresses.append(peer_address[0])
            return True

    def make_room(self) -> None:
        with self._changed:
            self._room += 1
            self._changed.notify_all()

    def start(self) -> None:
        self.calls.append("start")

    def begin_shutdown(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def shutdown(self, timeout_s: float) -> None:
        self.calls.append("shutdown")
        self.begin_shutdown()
        while self.taken:
            self.taken.pop().close()
            self._quotas.dec(NAME, self._addresses.pop())

    def abandon(self) -> None:
        self.calls.append("abandon")


class World:
    """An Acceptor, its Processors, and clients."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.quotas = ConnectionQuotas(self.clock, quota_window_num=2)
        self.quotas.add_listener(NAME)
        self.takers: list[Taker] = []
        self.clients: list[socket.socket] = []
        self._acceptor: Acceptor | None = None

    def start(self, *rooms: int, started: bool = True, **settings: Any) -> Acceptor:
        self.takers = [Taker(self.quotas, room) for room in rooms or (1000,)]
        config = BrokerConfig.make(settings)
        self._acceptor = Acceptor(Listener(NAME), self.takers, self.quotas, config, self.clock)
        if started:
            self._acceptor.start()
        return self._acceptor

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        assert self._acceptor is not None
        address = ("127.0.0.1", self._acceptor.port)
        client = socket.create_connection(address, PATIENCE_S, (source, 0))
        self.clients.append(client)
        return client

    def counts(self) -> list[int]:
        return [len(taker.taken) for taker in self.takers]

    def await_taken(self, count: int) -> None:
        until(lambda: sum(self.counts()) == count, f"{count} connections taken")

    def close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.shutdown(PATIENCE_S)
        for client in self.clients:
            client.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


class Recording(socket.socket):
    """A socket that remembers in what order it was set up."""

    made: ClassVar[list[list[tuple[str, Any]]]] = []

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.calls: list[tuple[str, Any]] = []
        Recording.made.append(self.calls)

    def setsockopt(self, *arguments: Any) -> None:
        self.calls.append(("setsockopt", arguments))
        super().setsockopt(*arguments)

    def bind(self, address: Any) -> None:
        self.calls.append(("bind", address))
        super().bind(address)

    def listen(self, backlog: int = -1) -> None:
        self.calls.append(("listen", backlog))
        super().listen(backlog)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, Any]]]:
    monkeypatch.setattr(Recording, "made", [])
    monkeypatch.setattr(socket, "socket", Recording)
    return Recording.made


def test_the_backlog_reaches_listen(world: World, recorded: list[Any]) -> None:
    """B-A10.53."""
    world.start(started=False, socket_listen_backlog_size=128)
    assert ("listen", 128) in recorded[0]


def test_the_receive_buffer_is_set_before_the_bind(world: World, recorded: list[Any]) -> None:
    """B-A2.3."""
    world.start(started=False, socket_receive_buffer_bytes=70_000)
    size = ("setsockopt", (socket.SOL_SOCKET, socket.SO_RCVBUF, 70_000))
    names = [call[0] for call in recorded[0]]
    assert recorded[0].index(size) < names.index("bind") < names.index("listen")


def test_minus_one_leaves_the_buffers_to_the_system(world: World, recorded: list[Any]) -> None:
    """B-A1 socket.send.buffer.bytes, socket.receive.buffer.bytes."""
    world.start(socket_receive_buffer_bytes=-1, socket_send_buffer_bytes=-1)
    world.connect()
    world.await_taken(1)
    options = [call[1][:2] for calls in recorded for call in calls if call[0] == "setsockopt"]
    assert (socket.SOL_SOCKET, socket.SO_RCVBUF) not in options
    assert (socket.SOL_SOCKET, socket.SO_SNDBUF) not in options


def test_an_accepted_socket_is_configured(world: World) -> None:
    """B-A2.4."""
    world.start(socket_send_buffer_bytes=54_321)
    world.connect()
    world.await_taken(1)
    sock = world.takers[0].taken[0]
    assert sock.gettimeout() == 0
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    # Linux doubles what it is told, for its own use.
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (54_321, 2 * 54_321)


def test_a_listener_can_be_on_every_interface(world: World) -> None:
    config = BrokerConfig()
    acceptor = Acceptor(Listener(NAME, host=""), [], world.quotas, config, world.clock)
    try:
        assert acceptor.host in ("0.0.0.0", "::")
        socket.create_connection(("127.0.0.1", acceptor.port), PATIENCE_S).close()
    finally:
        acceptor.shutdown(PATIENCE_S)


def test_processors_take_turns(world: World) -> None:
    """B-A2.6."""
    world.start(100, 100, 100)
    for count in range(1, 8):
        world.connect()
        world.await_taken(count)
    assert world.counts() == [3, 2, 2]


def test_a_full_processor_is_passed_over(world: World) -> None:
    """B-A2.6: nobody waits as long as one has room."""
    acceptor = world.start(1, 100)
    for count in range(1, 6):
        world.connect()
        world.await_taken(count)
    assert world.counts() == [1, 4]
    assert (acceptor.is_blocked, acceptor.blocked_ns) == (False, 0)


def test_when_all_are_full_it_waits_for_one_and_the_time_is_known(world: World) -> None:
    """B-A2.6, B-A9 AcceptorBlockedPercent."""
    acceptor = world.start(1, 1)
    for _ in range(3):
        world.connect()
    until(lambda: acceptor.is_blocked)
    assert world.counts() == [1, 1]
    world.clock.advance(30)
    assert acceptor.blocked_ratio == 1
    # The last one it asked is the one it waits for.
    world.takers[0].make_room()
    world.takers[1].make_room()
    world.await_taken(3)
    until(lambda: not acceptor.is_blocked)
    assert acceptor.blocked_ns == 30_000_000
    world.clock.advance(70)
    assert acceptor.blocked_ratio == pytest.approx(0.3)


def test_it_ends_although_it_waits_for_a_processor(world: World) -> None:
    """B-A10.6, B-A2.9."""
    acceptor = world.start(1)
    clients = [world.connect() for _ in range(2)]
    until(lambda: acceptor.is_blocked)
    acceptor.shutdown(PATIENCE_S)
    assert all(map(is_ended, clients))
    assert world.quotas.total_count == 0
    assert world.takers[0].calls == ["start", "shutdown"]


@pytest.mark.parametrize("limit", ["count", "rate"])
def test_it_ends_although_it_waits_for_the_quotas(world: World, limit: str) -> None:
    """B-A2.5, B-A2.9."""
    if limit == "count":
        world.quotas.update_max_connections(1)
    else:
        world.quotas.update_broker_rate(1)
    acceptor = world.start()
    clients = [world.connect() for _ in range(2)]
    until(lambda: acceptor.is_blocked)
    assert world.counts() == [1]
    acceptor.shutdown(PATIENCE_S)
    assert all(map(is_ended, clients))
    assert world.quotas.total_count == 0


def test_parked_sockets_are_closed_at_the_ends_of_their_throttles(world: World) -> None:
    """B-A10.23, B-A2.5: in the order in which these end."""
    world.quotas.update_ip_rate("127.0.0.1", 1)
    world.quotas.update_ip_rate("127.0.0.2", 2)
    acceptor = world.start()
    for count, source in enumerate(("127.0.0.1", "127.0.0.2", "127.0.0.2"), start=1):
        world.connect(source)
        world.await_taken(count)
    # One too many a second of one, and half of one too many of the other.
    late = world.connect("127.0.0.1")
    until(lambda: len(acceptor._parked) == 1)
    early = world.connect("127.0.0.2")
    until(lambda: len(acceptor._parked) == 2)
    world.clock.advance(499)
    assert len(acceptor._parked) == 2
    world.clock.advance(1)
    assert is_ended(early)
    assert len(acceptor._parked) == 1
    world.clock.advance(500)
    assert is_ended(late)
    assert world.quotas.total_count == 3


def test_an_error_of_a_processor_costs_one_socket(world: World) -> None:
    """B-A2.7."""
    world.start()
    world.takers[0].error = OSError(errno.ENOTCONN, "injected")
    assert is_ended(world.connect())
    until(lambda: world.quotas.total_count == 0)
    world.takers[0].error = None
    world.connect()
    world.await_taken(1)


def test_an_error_of_the_quotas_costs_one_socket(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B-A2.7: any other throwable in the loop is logged and the loop goes on."""

    def fail(*given: object) -> None:
        raise RuntimeError("injected")

    caplog.set_level(logging.CRITICAL + 1, acceptor_module.__name__)
    world.start()
    with monkeypatch.context() as patch:
        patch.setattr(world.quotas, "inc", fail)
        assert is_ended(world.connect())
    world.connect()
    world.await_taken(1)


def accept_fails(
    monkeypatch: pytest.MonkeyPatch, errors: Sequence[OSError | None]
) -> Callable[[], int]:
    """Have `accept` raise these first; returns how many are left."""
    left = list(errors)

    class Failing(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            if left:
                error = left.pop(0)
                if error is not None:
                    raise error
            return super().accept()

    monkeypatch.setattr(socket, "socket", Failing)
    return lambda: len(left)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_when_descriptors_run_out_it_takes_nobody_for_a_moment_and_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """B-A2.7; the connection that waits must not make the loop spin."""
    left = accept_fails(monkeypatch, [OSError(number, os.strerror(number))])
    monkeypatch.setattr(acceptor_module, "_PAUSE_S", 0.01)
    acceptor = world.start()
    world.connect()
    world.await_taken(1)
    assert left() == 0
    assert acceptor._paused_until is None


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.EPROTO, errno.EPERM])
def test_a_client_that_has_gone_before_its_turn_does_not_hold_up_others(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """B-A2.7."""
    left = accept_fails(monkeypatch, [OSError(number, "gone"), OSError(number, "gone")])
    world.start()
    world.connect()
    world.await_taken(1)
    assert left() == 0


def test_it_sleeps_without_bound_when_there_is_nothing_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No periodic wake-ups; with parked sockets exactly until the first one is due."""
    asked: list[float | None] = []

    class Asked(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[Any]:
            asked.append(timeout)
            found: list[Any] = super().select(timeout)
            return found

    monkeypatch.setattr(selectors, "DefaultSelector", Asked)
    monkeypatch.setattr(
        FakeClock, "seconds_until", lambda clock, end_ns: (end_ns - clock.monotonic_ns()) / 1e9
    )
    world.quotas.update_ip_rate(None, 1)
    acceptor = world.start()
    world.connect()
    world.await_taken(1)
    until(lambda: len(asked) == 2)
    world.connect()
    until(lambda: len(asked) >= 3)
    assert asked[:3] == [None, None, 1.0]
    assert len(acceptor._parked) == 1


def test_it_starts_once_and_not_after_its_end(world: World) -> None:
    acceptor = world.start()
    with pytest.raises(IllegalStateError, match="starts once"):
        acceptor.start()
    acceptor.shutdown(PATIENCE_S)
    acceptor.shutdown(PATIENCE_S)
    unstarted = world.start(started=False)
    unstarted.shutdown(PATIENCE_S)
    with pytest.raises(IllegalStateError, match="not after its end"):
        unstarted.start()
    assert world.takers[0].calls == ["shutdown"]


def test_the_clock_forgets_it_at_the_end(world: World) -> None:
    """A clock outlives many nodes that go down and come up."""
    acceptor = world.start()
    assert len(world.clock._subscribers) == 1
    acceptor.shutdown(PATIENCE_S)
    assert world.clock._subscribers == []


def test_an_address_that_is_none_is_named(world: World) -> None:
    with pytest.raises(OSError, match=r"PLAINTEXT cannot listen on 192\.0\.2\.1:0"):
        Acceptor(Listener(NAME, host="192.0.2.1"), [], world.quotas, BrokerConfig(), world.clock)
