"""Exchanges by HTTP end in time, and take no more than they may."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastprod.client.sasl.bounded_http import MOST_BYTES, Bounds, open_bounded, read_body
from support.security.authority import CertificateAuthority

PAUSE_S = 0.02
PIECES = 200
"""Together they last for 4 s at least, and each comes well before any time-out of the tests."""
ANSWER_S = 0.5

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"

Serve = Callable[[socket.socket], None]


class Server:
    """Takes connections one after the other, and gives each to a function of the test."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._serve(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Serve], Server]]:
    made: list[Server] = []

    def new(function: Serve) -> Server:
        made.append(Server(function))
        return made[-1]

    yield new
    for each in made:
        each.close()


def ask(url: str, bounds: Bounds | None = None, context: ssl.SSLContext | None = None) -> bytes:
    request = urllib.request.Request(url, b"hush", method="POST")
    with open_bounded(request, bounds or Bounds(None, 30.0), context) as answer:
        return read_body(answer)


def reason(error: BaseException) -> object:
    """What urllib's own error is about."""
    return error.reason if isinstance(error, urllib.error.URLError) else error


def read_request(connection: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"hush"):
        part = connection.recv(65_536)
        if not part:
            raise ConnectionError("the client's time was over before it had asked")
        found += part
    return found


def dribble(connection: socket.socket, before: bytes, piece: bytes, after: bytes) -> None:
    """Send many pieces, slowly; an error when the other side has had enough."""
    connection.sendall(before)
    for _ in range(PIECES):
        connection.sendall(piece)
        time.sleep(PAUSE_S)
    connection.sendall(after)


def test_an_answer_is_read(serve: Callable[[Serve], Server]) -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        asked.append(read_request(connection))
        connection.sendall(WHOLE)

    server = serve(answer)
    assert ask(f"http://127.0.0.1:{server.port}/t") == b"abcd"
    assert asked[0].startswith(b"POST /t HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}\r\n".encode() in asked[0]


@pytest.mark.parametrize(
    ("before", "piece", "after"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", b"\r\nContent-Length: 4\r\n\r\nabcd"),
        (b"HTTP/1.1 200 ", b"O", b"K\r\nContent-Length: 4\r\n\r\nabcd"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", WHOLE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", b"x", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", b"0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n", b"\r\n"),
    ],
)
def test_an_answer_that_dribbles_ends_in_time(
    serve: Callable[[Serve], Server], before: bytes, piece: bytes, after: bytes
) -> None:
    """P-G.10.5: a time-out of each byte would let it take its time."""

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        dribble(connection, before, piece, after)

    server = serve(answer)
    with pytest.raises(OSError, match="timed out") as told:
        ask(f"http://127.0.0.1:{server.port}/t", Bounds(None, ANSWER_S))
    assert isinstance(reason(told.value), TimeoutError)


def test_an_error_whose_body_dribbles_ends_in_time(serve: Callable[[Serve], Server]) -> None:
    def answer(connection: socket.socket) -> None:
        read_request(connection)
        dribble(connection, b"HTTP/1.1 503 Busy\r\nContent-Length: 200\r\n\r\n", b"x", b"")

    server = serve(answer)
    with pytest.raises(urllib.error.HTTPError) as told:
        ask(f"http://127.0.0.1:{server.port}/t", Bounds(None, 4 * ANSWER_S))
    with told.value, pytest.raises(TimeoutError):
        told.value.read(1000)


def test_a_tunnel_and_a_handshake_that_dribble_end_in_time(
    serve: Callable[[Serve], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's answer is a part of the exchange, and so is TLS."""

    def tunnel(connection: socket.socket) -> None:
        connection.recv(65_536)
        dribble(connection, b"HTTP/1.1 200 OK\r\nX: ", b"x", b"\r\n\r\n")

    def handshake(connection: socket.socket) -> None:
        connection.recv(65_536)
        dribble(connection, b"\x16\x03\x03\x40\x00", b"\x02", b"")

    context = ssl.create_default_context()
    port = serve(handshake).port
    with pytest.raises(OSError, match="timed out") as told:
        ask(f"https://127.0.0.1:{port}/t", Bounds(None, ANSWER_S), context)
    assert isinstance(reason(told.value), TimeoutError)
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{serve(tunnel).port}")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(OSError, match="timed out") as told:
        ask("https://nowhere.invalid/t", Bounds(None, ANSWER_S), context)
    assert isinstance(reason(told.value), TimeoutError)


def test_tls_goes_through_a_proxys_tunnel(
    serve: Callable[[Serve], Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The certificate is asked for by the endpoint's name, not by the proxy's."""
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue("tokens", ("tokens.example",))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(issued.both)
    asked: list[bytes] = []

    def proxy(connection: socket.socket) -> None:
        asked.append(connection.recv(65_536))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with theirs.wrap_socket(connection, server_side=True) as secured:
            asked.append(read_request(secured))
            secured.sendall(WHOLE)

    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{serve(proxy).port}")
    monkeypatch.delenv("no_proxy", raising=False)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.load_verify_locations(authority.certificate)
    assert ask("https://tokens.example/t", context=ours) == b"abcd"
    assert asked[0].startswith(b"CONNECT tokens.example:443 HTTP/1.")
    assert b"hush" not in asked[0]
    assert asked[1].startswith(b"POST /t HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 60_000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 60_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
    ],
)
def test_an_answer_of_any_size_is_not_read(
    serve: Callable[[Serve], Server], before: bytes, piece: bytes
) -> None:
    """Neither headers, nor a body without a length."""

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(before + piece * (2 * MOST_BYTES // len(piece)) + b"\r\n")

    server = serve(answer)
    with pytest.raises(ValueError, match="larger than 1,048,576 bytes"):
        ask(f"http://127.0.0.1:{server.port}/t")


def test_a_connection_has_a_time_of_its_own() -> None:
    bounds = Bounds(1e-9, 100.0)
    with pytest.raises(TimeoutError):
        bounds.left_s()
    bounds.connected()
    assert bounds.left_s() > 1
    alone = Bounds(None, 100.0)
    before_s = alone.left_s()
    alone.connected()
    assert alone.left_s() <= before_s, "connecting has taken a part of it"


def test_all_addresses_of_a_host_are_tried(
    serve: Callable[[Serve], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that refuses, or of a kind that the system does not have, does not end it."""

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(WHOLE)

    port = serve(answer).port
    found = [
        (socket.AF_INET, 77, 0, "", ("127.0.0.1", port)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert ask("http://tokens.example/t") == b"abcd"
    del found[2]
    with pytest.raises(urllib.error.URLError, match="refused"):
        ask("http://tokens.example/t")
    found.clear()
    with pytest.raises(urllib.error.URLError, match="no address"):
        ask("http://tokens.example/t")
