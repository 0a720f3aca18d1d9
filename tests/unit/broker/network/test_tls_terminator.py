"""TLS in front of a Processor: B-A4.7, B-A10.25, B-A10.48, B-A10.54, and what clients do to it."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from termios import FIONREAD
from termios import TIOCOUTQ as SIOCOUTQ
from typing import Any

import pytest

from fastprod.broker.network import tls_terminator
from fastprod.broker.network.acceptor import Listener
from fastprod.broker.network.tls_terminator import TlsTerminator
from support.broker import certificates
from support.broker.certificates import Certificate
from support.broker.sockets import PATIENCE_S, EchoWorld, ask, frame, is_ended, until
from support.oracle.loopback import read_exactly
from support.processes.child_python import run_python
from support.processes.leak_guard import nothing_is_left as nothing_is_left


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def world(certificate: Certificate) -> Iterator[EchoWorld]:
    with EchoWorld(Listener("SSL", ssl_context=certificate.server_context())) as made:
        yield made


def secured(world: EchoWorld, certificate: Certificate) -> ssl.SSLSocket:
    client = certificate.client_context().wrap_socket(world.connect(), server_hostname="localhost")
    world.clients.append(client)
    return client


@contextlib.contextmanager
def terminated(
    certificate: Certificate,
) -> Iterator[tuple[ssl.SSLSocket, socket.socket, TlsTerminator]]:
    """A client and the plain end of its connection, both blocking."""
    terminator = TlsTerminator(certificate.server_context(), "tls-test")
    terminator.start()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        raw = socket.create_connection(listening.getsockname(), PATIENCE_S)
        accepted, address = listening.accept()
    accepted.setblocking(False)
    plain = terminator.wrap(accepted, address)
    plain.settimeout(PATIENCE_S)
    try:
        with (
            contextlib.closing(plain),
            certificate.client_context().wrap_socket(raw, server_hostname="localhost") as client,
        ):
            yield client, plain, terminator
    finally:
        terminator.shutdown(PATIENCE_S)


def queued(sock: socket.socket, request: int) -> int:
    """How many bytes the kernel holds: of those sent, or of those received."""
    answer = array.array("i", [0])
    fcntl.ioctl(sock, request, answer)
    return answer[0]


def fill(plain: socket.socket) -> int:
    """Send until nothing more is taken; how many bytes that were."""
    plain.settimeout(0.3)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 100_000_000:
            sent += plain.send(bytes(65_536))
    return sent


def test_a_handshake_and_a_request(world: EchoWorld, certificate: Certificate) -> None:
    """B-A10.25 testSslSocketServer."""
    client = secured(world, certificate)
    assert client.version() == "TLSv1.3"
    ask(client)
    ask(client, os.urandom(3_000_000))
    client.close()
    world.await_count(0)


def test_requests_of_one_tls_record_are_all_answered(
    world: EchoWorld, certificate: Certificate
) -> None:
    """B-A10.54 testLatencyWithBufferedDataAndNoSocketData, B-A10.48: the kernel has nothing left.

    The Processor's poll has no bound here: whoever waits for one waits for ever.
    """
    client = secured(world, certificate)
    client.sendall(b"".join(frame(b"%d" % number) for number in range(100)))
    for number in range(100):
        expected = frame(b"%d" % number)
        assert read_exactly(client, len(expected)) == expected


def test_what_lies_inside_tls_is_delivered_without_new_bytes(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-A4.7: a record of 16,000 bytes is taken 100 at a time."""
    monkeypatch.setattr(tls_terminator, "_PART_BYTES", 100)
    with terminated(certificate) as (client, plain, _):
        client.sendall(bytes(16_000))
        assert read_exactly(plain, 16_000) == bytes(16_000)


def test_much_goes_both_ways_at_once(certificate: Certificate) -> None:
    """More than all buffers hold, so that both ends come to a halt and go on."""
    data = os.urandom(8_000_000)
    with terminated(certificate) as (client, plain, _):
        # One thread may use the client's end at a time; the other end has two.
        heard: list[bytes] = []
        talking = threading.Thread(target=plain.sendall, args=(data,))
        hearing = threading.Thread(target=lambda: heard.append(read_exactly(plain, len(data))))
        talking.start()
        hearing.start()
        client.sendall(data)
        assert read_exactly(client, len(data)) == data
        talking.join(PATIENCE_S)
        hearing.join(PATIENCE_S)
        assert heard == [data]


def test_a_client_that_does_not_read_holds_little(certificate: Certificate) -> None:
    """Whoever answers it is stopped, as by a plain socket."""
    with terminated(certificate) as (_, plain, _):
        assert fill(plain) < 20_000_000


def test_the_end_of_the_client_comes_behind_its_last_bytes(certificate: Certificate) -> None:
    """B-A10.9: what was sent before the close is delivered."""
    with terminated(certificate) as (client, plain, _):
        client.sendall(b"last words")
        client.close()
        assert read_exactly(plain, 10) == b"last words"
        assert plain.recv(1) == b""


def test_the_end_of_the_processor_comes_behind_its_last_bytes(certificate: Certificate) -> None:
    with terminated(certificate) as (client, plain, _):
        plain.sendall(b"x" * 300_000)
        plain.close()
        assert read_exactly(client, 300_000) == b"x" * 300_000
        assert client.recv(1) == b""


def test_the_processors_last_answer_arrives_although_it_takes_nothing_more(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has sent more than the Processor reads before it closes."""
    # So that nothing is left in the client's connection, which would end with a reset.
    monkeypatch.setattr(tls_terminator, "_HELD_BYTES", 4_000_000)
    with terminated(certificate) as (client, plain, terminator):
        client.sendall(bytes(1_000_000))
        (relay,) = terminator._relays
        until(lambda: queued(client, SIOCOUTQ) == 0 and queued(relay._tls, FIONREAD) == 0)
        plain.sendall(b"A" * 5_000)
        plain.close()
        assert read_exactly(client, 5_000) == b"A" * 5_000


def test_a_client_that_says_goodbye_has_its_answer_and_an_end(certificate: Certificate) -> None:
    with terminated(certificate) as (client, plain, _):
        client.sendall(b"last question")
        assert read_exactly(plain, 13) == b"last question"

        def end() -> None:
            if not plain.recv(1):
                plain.close()

        ending = threading.Thread(target=end)
        ending.start()
        assert client.unwrap().recv(1) == b""
        ending.join(PATIENCE_S)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_who_ends_a_direction_still_has_the_answer(certificate: Certificate, size: int) -> None:
    """As without TLS, also if the end is not said."""
    with terminated(certificate) as (client, plain, _):
        client.sendall(b"question")
        socket.socket.shutdown(client, socket.SHUT_WR)
        assert read_exactly(plain, 8) == b"question"
        assert plain.recv(1) == b""
        answering = threading.Thread(target=plain.sendall, args=(b"a" * size,))
        answering.start()
        assert read_exactly(client, size) == b"a" * size
        answering.join(PATIENCE_S)


def test_a_connection_that_moves_much_lets_others_in(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn of the loop is bounded, and what lies inside TLS then is not forgotten."""
    monkeypatch.setattr(tls_terminator, "_ROUNDS", 1)
    monkeypatch.setattr(tls_terminator, "_PART_BYTES", 100)
    with terminated(certificate) as (client, plain, _):
        client.sendall(bytes(16_000))
        assert read_exactly(plain, 16_000) == bytes(16_000)


def test_a_client_that_speaks_no_tls_is_closed(world: EchoWorld, certificate: Certificate) -> None:
    client = world.connect()
    client.sendall(frame(b"plain") + os.urandom(500))
    with contextlib.suppress(ConnectionResetError):
        while client.recv(4096):  # an alert, if it comes so far
            pass
    world.await_count(0)
    ask(secured(world, certificate))


def test_a_client_that_leaves_amid_the_handshake_is_forgotten(
    world: EchoWorld, certificate: Certificate
) -> None:
    silent = world.connect()
    half = world.connect()
    half.sendall(b"\x16\x03\x01\x02\x00")
    world.await_count(2)
    ask(secured(world, certificate))
    silent.close()
    half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    half.close()
    until(lambda: world.server.quotas.total_count <= 1)


def test_a_client_that_never_shakes_hands_expires(certificate: Certificate) -> None:
    """B-A4.4: idle is idle."""
    listener = Listener("SSL", ssl_context=certificate.server_context())
    with EchoWorld(listener, config={"connections_max_idle_ms": 50}) as world:
        assert is_ended(world.connect())
        world.await_count(0)
        assert world.server.expired_connections_killed_count == 1


def test_a_connection_has_the_addresses_of_its_client(
    world: EchoWorld, certificate: Certificate
) -> None:
    """B-A3.2, B-A8: the limits count clients, not local sockets."""
    client = secured(world, certificate)
    ask(client)
    (connection,) = world.server.processors[0].connections()
    assert connection.remote_address == client.getsockname()
    assert connection.local_address == client.getpeername()
    assert world.server.quotas.total_count == 1


def test_clients_are_closed_when_the_server_stops(
    world: EchoWorld, certificate: Certificate
) -> None:
    """B-A10.18."""
    client = secured(world, certificate)
    ask(client)
    silent = world.connect()
    world.await_count(2)
    world.server.shutdown(PATIENCE_S)
    assert is_ended(client)
    assert is_ended(silent)


def test_a_client_that_takes_nothing_is_closed_when_the_server_stops(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_terminator, "_LINGER_S", 0.1)
    with terminated(certificate) as (_, plain, _):
        fill(plain)


def test_a_client_that_takes_nothing_is_closed_after_the_processors_end(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would hold its memory for ever."""
    monkeypatch.setattr(tls_terminator, "_DRAIN_S", 0.1)
    monkeypatch.setattr(tls_terminator, "_LOOK_S", 0.1)
    closed = threading.Event()
    close = tls_terminator._Relay.close

    def close_and_tell(*arguments: Any) -> None:
        close(*arguments)
        closed.set()

    monkeypatch.setattr(tls_terminator._Relay, "close", close_and_tell)
    with terminated(certificate) as (_, plain, _):
        fill(plain)
        assert not closed.is_set()
        plain.close()
        assert closed.wait(PATIENCE_S)


def test_without_a_start_it_can_be_shut(certificate: Certificate) -> None:
    """May be repeated."""
    terminator = TlsTerminator(certificate.server_context(), "tls-test")
    terminator.shutdown(PATIENCE_S)
    terminator.shutdown(PATIENCE_S)


def test_the_child_of_a_fork_lets_go_and_the_parents_connections_stay(
    certificate: Certificate,
) -> None:
    """A child that keeps running must not hold a connection."""
    told = run_python(
        f"""
        import json
        from pathlib import Path
        from support.broker.sockets import EchoWorld, ask, is_ended
        from support.broker.certificates import Certificate
        from fastprod.broker.network.acceptor import Listener
        from support.processes.forking import Child
        from support.processes.leak_guard import Census

        certificate = Certificate(*map(Path, {list(map(str, certificate))}))

        def abandoned():
            world.server.abandon()
            world.server.abandon()
            for client in (*world.clients, *clients):
                client.close()
            return [each for each in before.left_over() if each.startswith("descriptor")]

        before = Census()
        with EchoWorld(Listener("SSL", ssl_context=certificate.server_context())) as world:
            context = certificate.client_context()
            clients = [
                context.wrap_socket(world.connect(), server_hostname="localhost") for _ in range(4)
            ]
            for client in clients:
                ask(client)
            left = Child(abandoned).result()
            for client in clients:
                ask(client)
            world.server.shutdown()
            print(json.dumps({{"left": left, "ended": all(map(is_ended, clients))}}))
        """
    ).told
    assert told == {"left": [], "ended": True}
