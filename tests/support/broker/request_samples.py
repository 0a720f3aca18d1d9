"""Requests that no socket brought, for the tests of what stands above the sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from fastprod._core.io.server_selector import Frame, ServerSelector
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.request import Request, RequestHeader, Response
from fastprod.broker.network.request_channel import RequestChannel
from fastprod.broker.threads.clock import FakeClock


def frame_of(content: bytes) -> Frame:
    """A frame; only a selector can make one."""
    ours, theirs = socket.socketpair()
    with contextlib.closing(ServerSelector()) as selector, theirs:
        ours.setblocking(False)
        selector.register(ours.fileno())
        ours.detach()
        theirs.sendall(struct.pack(">i", len(content)) + content)
        while not (received := selector.poll(1000).receives):
            pass
    return received[0]


class Answers:
    """Stands in for a Processor: keeps the responses."""

    def __init__(self, id: int = 0) -> None:
        self.id = id
        self.responses: list[Response] = []
        self.on_response: Callable[[Response], None] | None = None

    @property
    def response_queue_size(self) -> int:
        return len(self.responses)

    def enqueue_response(self, response: Response) -> None:
        self.responses.append(response)
        if self.on_response is not None:
            self.on_response(response)


class Desk:
    """A RequestChannel with `Answers` behind it, and a clock that stands still."""

    def __init__(self, capacity_count: int = 500) -> None:
        self.clock = FakeClock()
        self.channel = RequestChannel(self.clock, capacity_count, node_id=1)
        self.answers = Answers()
        self.channel.add_processor(self.answers)

    def offer(self, request: Request) -> bool:
        """Queue `request`; False if there is no room."""
        return self.channel.send_request(request, lambda: False)

    def request(self, content: bytes = b"12345678body", key: int = 0, version: int = 0) -> Request:
        connection = Connection("c", 1, "P", 0, ("127.0.0.1", 1), ("127.0.0.1", 2))
        header = RequestHeader(key, version, 7, "client", 8)
        now_ns = self.clock.monotonic_ns()
        return Request(frame_of(content), header, connection, 1, now_ns, self.channel)


class ListeningHandler:
    """Notes what it is given, and does what it is told with it."""

    def __init__(self, do: Callable[[Request], None] | None = None) -> None:
        self.do = do
        self.handled: list[Request] = []
        self.failures: list[tuple[Request, Exception]] = []
        self.events: list[str] = []
        self.threads: list[str] = []

    def handle(self, request: Request) -> None:
        self.handled.append(request)
        self.events.append("handle")
        self.threads.append(threading.current_thread().name)
        if self.do is not None:
            self.do(request)

    def failed(self, request: Request, error: Exception) -> None:
        self.failures.append((request, error))

    def try_complete_actions(self) -> None:
        self.events.append("actions")
