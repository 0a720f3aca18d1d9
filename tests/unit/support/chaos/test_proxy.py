"""ChaosProxy: passes bytes on, and does what its conditions say."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from support.chaos.conditions import ANSWERS, BOTH, GOOD, REQUESTS, Conditions
from support.chaos.proxy import ChaosProxy
from support.chaos.request_spotter import Spotted

PATIENCE_S = 10.0
SHORT_S = 0.1


class Echo:
    """A server that sends back what it gets; `got` is all of it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.got = b""
        self.ends = 0
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock = self._listener.accept()[0]
                self._sockets.append(sock)
                self._threads.append(threading.Thread(target=self._serve, args=(sock,)))
                self._threads[-1].start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := sock.recv(65_536):
                self.got += data
                sock.sendall(data)
        self.ends += 1
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    found = Echo()
    yield found
    found.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[ChaosProxy]:
    with ChaosProxy(2) as found:
        found.lead_to([echo.port, echo.port])
        yield found


@pytest.fixture
def client(proxy: ChaosProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.ports[0]), PATIENCE_S) as found:
        yield found


def said(client: socket.socket, data: bytes) -> bytes:
    """What comes back, as much as was sent."""
    client.sendall(data)
    return received(client, len(data))


def received(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := client.recv(size - len(found))):
        found += part
    return found


def nothing_comes(client: socket.socket) -> bool:
    client.settimeout(SHORT_S)
    try:
        return client.recv(1) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE_S)


def wait_until(echo: Echo, got: bytes) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while echo.got != got:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


@pytest.mark.parametrize(
    "conditions",
    [
        GOOD,
        Conditions(latency_s=0.01, jitter_s=0.02),
        Conditions(pieces=30, jitter_s=0.001),
        Conditions(merge_s=0.02),
        Conditions(bytes_per_s=10_000_000),
    ],
)
def test_all_bytes_arrive_in_order(
    proxy: ChaosProxy, client: socket.socket, conditions: Conditions
) -> None:
    proxy.set(0, conditions)
    data = bytes(range(256)) * 4_000
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    found = received(client, len(data))
    sender.join()
    assert found == data


def test_latency_and_bandwidth_take_their_time(proxy: ChaosProxy, client: socket.socket) -> None:
    proxy.set(0, Conditions(latency_s=0.05))
    began_s = time.monotonic()
    assert said(client, b"x") == b"x"
    assert time.monotonic() - began_s >= 0.1
    proxy.set(0, Conditions(bytes_per_s=10_000))
    began_s = time.monotonic()
    assert said(client, bytes(1_000)) == bytes(1_000)
    assert time.monotonic() - began_s >= 0.2


def test_what_is_held_arrives_when_the_hold_ends_though_its_sender_is_gone(
    proxy: ChaosProxy, client: socket.socket, echo: Echo
) -> None:
    said(client, b"a")
    proxy.set(0, Conditions(held=BOTH))
    client.sendall(b"b")
    assert nothing_comes(client)
    client.close()
    assert echo.got == b"a"
    proxy.set(0, GOOD)
    wait_until(echo, b"ab")


def test_one_way_can_be_held_alone(proxy: ChaosProxy, client: socket.socket, echo: Echo) -> None:
    proxy.set(0, Conditions(held=frozenset({ANSWERS})))
    client.sendall(b"a")
    wait_until(echo, b"a")
    assert nothing_comes(client)
    proxy.set(0, Conditions(held=frozenset({REQUESTS})))
    assert received(client, 1) == b"a"
    client.sendall(b"b")
    assert nothing_comes(client)
    assert echo.got == b"a"


def test_a_connection_is_reset_after_so_many_bytes(
    proxy: ChaosProxy, client: socket.socket, echo: Echo
) -> None:
    said(client, b"before")
    proxy.set(0, Conditions(reset_after=10))
    assert said(client, b"1234") == b"1234"
    client.sendall(b"5678")
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert b"before1234567".startswith(echo.got[:10])
    assert len(echo.got) <= 12


def test_cut_resets_and_other_nodes_are_left_alone(
    proxy: ChaosProxy, client: socket.socket
) -> None:
    with socket.create_connection(("127.0.0.1", proxy.ports[1]), PATIENCE_S) as other:
        said(client, b"a")
        said(other, b"a")
        proxy.cut(0)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert said(other, b"b") == b"b"
    assert proxy.connection_count == 2


def test_half_open_the_server_has_gone_and_the_client_is_not_told(
    proxy: ChaosProxy, client: socket.socket
) -> None:
    said(client, b"a")
    proxy.set(0, Conditions(held=BOTH))
    proxy.lose_servers(0)
    client.sendall(b"b")
    assert nothing_comes(client)
    proxy.set(0, GOOD)
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""


def test_refusing_and_a_node_that_is_not_there(proxy: ChaosProxy, client: socket.socket) -> None:
    said(client, b"a")
    proxy.set(0, Conditions(is_refusing=True))
    with pytest.raises(ConnectionResetError):
        connect_and_wait(proxy.ports[0])
    assert said(client, b"b") == b"b"
    proxy.set(0, GOOD)
    with socket.socket() as held:  # so that nobody else comes to have the port
        held.bind(("127.0.0.1", 0))
        proxy.lead_to([held.getsockname()[1]] * 2)
        with pytest.raises(ConnectionResetError):
            connect_and_wait(proxy.ports[0])


def connect_and_wait(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.recv(1)


def test_the_end_of_one_side_is_passed_on(
    proxy: ChaosProxy, client: socket.socket, echo: Echo
) -> None:
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert received(client, 5) == b"last"
    assert client.recv(1) == b"", "the other side ends when it has seen the end"
    assert echo.ends == 1


def request(api_key: int, version: int, body: bytes = b"") -> bytes:
    """A request of client "me"."""
    head = struct.pack("!HHih", api_key, version, 7, 2) + b"me" + body
    return struct.pack("!i", len(head)) + head


INIT = request(22, 4, b"\0\4abc" + bytes(4) + b"\xff" * 10 + b"\0")


def test_requests_are_spotted_before_they_go_on_whatever_their_pieces(
    proxy: ChaosProxy, client: socket.socket, echo: Echo
) -> None:
    found: list[tuple[int, Spotted]] = []

    def look(node: int, spotted: Spotted) -> None:
        found.append((node, spotted))
        if spotted.api_key == 26:
            proxy.set_at_once(node, Conditions(held=BOTH))

    end = proxy.watch(look)
    first = request(3, 1) + request(0, 9, bytes(1_000)) + INIT
    for each in first:
        said(client, bytes([each]))
    last = request(26, 4)
    client.sendall(last)
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < 4:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
    assert nothing_comes(client)
    assert found == [
        (0, Spotted(3, "me")),
        (0, Spotted(0, "me")),
        (0, Spotted(22, "me")),
        (0, Spotted(26, "me")),
    ]
    assert echo.got == first
    end()
    proxy.set(0, GOOD)
    assert received(client, len(last)) == last


def test_a_producer_id_that_a_client_did_not_wait_for_is_counted(
    proxy: ChaosProxy, client: socket.socket
) -> None:
    said(client, INIT)
    proxy.set(0, Conditions(held=frozenset({ANSWERS})))
    client.sendall(request(3, 1) + INIT)
    client.close()
    deadline_s = time.monotonic() + PATIENCE_S
    while not proxy.unanswered_inits:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
    assert proxy.unanswered_inits == {"me": 1}
