"""A SocketServer whose handler repeats what it is sent, and clients that can tell."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from fastprod.broker.config import BrokerConfig
from fastprod.broker.network.acceptor import Acceptor, Listener
from fastprod.broker.network.request import Request, RequestHeader
from fastprod.broker.network.socket_server import SocketServer
from support.processes.closing import Closing

PATIENCE_S = 30.0


def until(done: Callable[[], object], what: str = "") -> None:
    """Wait for what a thread will bring about."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not so after {PATIENCE_S} s: {what or done}"
        time.sleep(0.0005)


def any_header(_frame: memoryview) -> RequestHeader:
    """Every frame is a request."""
    return RequestHeader(0, 0, 0, None, 0)


class Echo:
    """Answers with the request.  `stall` makes it wait for `go_on`."""

    def __init__(self) -> None:
        self.stall = False
        self.is_stalled = threading.Event()
        self.go_on = threading.Event()

    def handle(self, request: Request) -> None:
        if self.stall:
            self.is_stalled.set()
            assert self.go_on.wait(PATIENCE_S), "nobody let the handler go on"
        request.respond([request.frame])

    def failed(self, request: Request, error: Exception) -> None:
        raise AssertionError(f"{request}: {error!r}") from error

    def try_complete_actions(self) -> None:
        """It leaves nothing to be done."""


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def ask(client: socket.socket, payload: bytes = b"ping") -> None:
    """A request, and its answer."""
    client.sendall(frame(payload))
    expected = frame(payload)
    answer = b""
    while len(answer) < len(expected):
        part = client.recv(len(expected) - len(answer))
        assert part, f"the stream ended after {answer!r}"
        answer += part
    assert answer == expected


def is_ended(client: socket.socket) -> bool:
    """Wait for the end of the stream; False if there are bytes instead."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


class EchoWorld(Closing):
    """The server, started unless told otherwise; everything is closed on leaving.

    Args:
        listeners: names; each on a port of its own.
        started: whether it is.
        server: arguments of SocketServer; `config` as a dict of settings.
    """

    def __init__(self, *listeners: str | Listener, started: bool = True, **server: Any) -> None:
        self.handler = Echo()
        self.clients: list[socket.socket] = []
        self.server = SocketServer(
            [
                each if isinstance(each, Listener) else Listener(each)
                for each in listeners or ("PLAINTEXT",)
            ],
            handler=server.pop("handler", self.handler),
            parse_header=any_header,
            config=BrokerConfig.make(server.pop("config", {})),
            **server,
        )
        if started:
            self.server.start()

    @property
    def acceptor(self) -> Acceptor:
        """Of the first listener."""
        return next(iter(self.server.acceptors.values()))

    def connect(self, listener: str | None = None, source: str = "127.0.0.1") -> socket.socket:
        client = socket.create_connection(
            ("127.0.0.1", self.server.bound_port(listener)), PATIENCE_S, (source, 0)
        )
        self.clients.append(client)
        return client

    def served(self, listener: str | None = None, source: str = "127.0.0.1") -> socket.socket:
        """A client that has had an answer."""
        client = self.connect(listener, source)
        ask(client)
        return client

    def await_count(self, count: int) -> None:
        """Until so many connections are counted."""
        until(lambda: self.server.quotas.total_count == count, f"{count} connections")

    def close(self) -> None:
        self.handler.go_on.set()
        try:
            self.server.shutdown(PATIENCE_S)
        finally:
            for client in self.clients:
                client.close()
