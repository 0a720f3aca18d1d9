"""TLS of a Processor's connections: B-A4.7, B-A10.25, B-A10.48, B-A10.54, and hostile clients."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest

from fastprod.broker.network.acceptor import Listener
from fastprod.broker.network.admission import Admission
from fastprod.broker.network.connection import ANONYMOUS
from fastprod.broker.network.tls.server_certificate import ClientAuth
from support.broker import certificates
from support.broker.certificates import Certificate
from support.broker.sockets import PATIENCE_S, EchoWorld, ask, frame, is_ended, until
from support.oracle.loopback import read_exactly
from support.processes.child_python import run_python
from support.processes.leak_guard import nothing_is_left as nothing_is_left


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A client's own certificate."""
    return certificates.make(tmp_path_factory.mktemp("ada"), "ada")


def listener(
    certificate: Certificate, ca: Certificate | None = None, client_auth: ClientAuth = "none"
) -> Listener:
    return Listener("SSL", admission=Admission(certificate.server(ca, client_auth)))


@pytest.fixture
def world(certificate: Certificate) -> Iterator[EchoWorld]:
    with EchoWorld(listener(certificate)) as made:
        yield made


def secured(
    world: EchoWorld, certificate: Certificate, own: Certificate | None = None
) -> ssl.SSLSocket:
    context = certificate.client_context()
    if own is not None:
        context.load_cert_chain(own.certfile, own.keyfile)
    client = context.wrap_socket(world.connect(), server_hostname="localhost")
    world.clients.append(client)
    return client


def failed_handshakes(world: EchoWorld) -> int:
    return sum(each.failed_handshake_count for each in world.server.processors)


def principals(world: EchoWorld) -> list[str]:
    return [each.principal for each in world.server.processors[0].connections()]


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
    """B-A4.7, B-A10.54 testLatencyWithBufferedDataAndNoSocketData, B-A10.48: nothing is left in
    the kernel.

    The Processor's poll has no bound here: whoever waits for one waits for ever.
    """
    client = secured(world, certificate)
    client.sendall(b"".join(frame(b"%d" % number) for number in range(100)))
    for number in range(100):
        expected = frame(b"%d" % number)
        assert read_exactly(client, len(expected)) == expected


def test_much_comes_in_and_goes_out(world: EchoWorld, certificate: Certificate) -> None:
    """More than all buffers hold."""
    client = secured(world, certificate)
    for size in (1, 16_383, 16_384, 16_385, 8_000_000):
        ask(client, os.urandom(size))


def test_the_end_of_the_client_comes_behind_its_last_request(
    world: EchoWorld, certificate: Certificate
) -> None:
    """B-A10.9: and it has its answer, though it ended its direction without a word in TLS."""
    client = secured(world, certificate)
    client.sendall(frame(b"last words"))
    socket.socket.shutdown(client, socket.SHUT_WR)
    expected = frame(b"last words")
    assert read_exactly(client, len(expected)) == expected
    world.await_count(0)


def test_a_client_that_speaks_no_tls_is_told_and_closed(
    world: EchoWorld, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.connect()
    client.sendall(frame(b"plain") + os.urandom(500))
    with contextlib.suppress(ConnectionResetError):
        while client.recv(4096):  # an alert, if it comes so far
            pass
    world.await_count(0)
    until(lambda: failed_handshakes(world) == 1)
    assert "no TLS connection: wrong version number - the client does not speak TLS" in caplog.text
    ask(secured(world, certificate))


def test_a_client_that_does_not_trust_the_broker_is_told(
    world: EchoWorld, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(world.connect(), server_hostname="localhost")
    until(lambda: failed_handshakes(world) == 1)
    assert "the client does not trust the broker's certificate" in caplog.text
    world.await_count(0)


def test_a_client_that_leaves_amid_the_handshake_is_forgotten(
    world: EchoWorld, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    silent = world.connect()
    half = world.connect()
    half.sendall(b"\x16\x03\x01\x02\x00")
    world.await_count(2)
    ask(secured(world, certificate))
    silent.close()
    half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    half.close()
    until(lambda: world.server.quotas.total_count <= 1)
    assert failed_handshakes(world) == 0
    assert caplog.text == ""


def test_a_client_that_never_shakes_hands_expires(certificate: Certificate) -> None:
    """B-A4.4: idle is idle."""
    with EchoWorld(listener(certificate), config={"connections_max_idle_ms": 50}) as world:
        assert is_ended(world.connect())
        world.await_count(0)
        assert world.server.expired_connections_killed_count == 1


def test_a_connection_has_the_addresses_of_its_client(
    world: EchoWorld, certificate: Certificate
) -> None:
    """B-A3.2, B-A8."""
    client = secured(world, certificate)
    ask(client)
    (connection,) = world.server.processors[0].connections()
    assert connection.remote_address == client.getsockname()
    assert connection.local_address == client.getpeername()
    assert connection.principal == ANONYMOUS
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


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_a_client_is_called_by_its_certificate(
    certificate: Certificate, ada: Certificate, auth: ClientAuth
) -> None:
    """B-D6.5: ssl.client.auth, with the subject as in RFC 2253."""
    with EchoWorld(listener(certificate, ca=ada, client_auth=auth)) as world:
        ask(secured(world, certificate, ada))
        assert principals(world) == ["User:CN=ada"]


def test_a_client_without_a_certificate_is_anonymous_where_none_is_required(
    certificate: Certificate, ada: Certificate
) -> None:
    """B-D6.5, B-A10.28."""
    with EchoWorld(listener(certificate, ca=ada, client_auth="requested")) as world:
        ask(secured(world, certificate))
        assert principals(world) == [ANONYMOUS]


@pytest.mark.parametrize("shows_a_wrong_one", [False, True])
def test_a_client_must_show_a_good_certificate_where_one_is_required(
    certificate: Certificate,
    ada: Certificate,
    shows_a_wrong_one: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B-D6.5."""
    own = certificate if shows_a_wrong_one else None
    with EchoWorld(listener(certificate, ca=ada, client_auth="required")) as world:
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert not secured(world, certificate, own).recv(1)
        until(lambda: failed_handshakes(world) == 1)
        world.await_count(0)
    hint = "one that ssl_cafile vouches for" if shows_a_wrong_one else "ssl_client_auth is required"
    assert hint in caplog.text


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
        from fastprod.broker.network.admission import Admission
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
        with EchoWorld(Listener("SSL", admission=Admission(certificate.server()))) as world:
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
