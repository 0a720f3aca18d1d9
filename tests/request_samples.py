"""Requests that no socket brought, for the tests of what stands above the sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from fastprod._core.server_selector import Frame, ServerSelector
from fastprod.broker.clock import FakeClock
from fastprod.broker.connection import Connection
from fastprod.broker.request import Request, RequestHeader, Response
from fastprod.broker.request_channel import RequestChannel


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

    def __init__(self, id: int = 0, handles_inline: bool = False) -> None:
        self.id = id
        self.handles_inline = handles_inline
        self.responses: list[Response] = []
        self.wake_count = 0
        self.on_response: Callable[[Response], None] | None = None

    @property
    def response_queue_size(self) -> int:
        return len(self.responses)

    def enqueue_response(self, response: Response) -> None:
        self.responses.append(response)
        if self.on_response is not None:
            self.on_response(response)

    def wake(self) -> None:
        self.wake_count += 1


class Desk:
    """A RequestChannel with `Answers` behind it, and a clock that stands still."""

    def __init__(self, capacity_count: int = 500, handles_inline: bool = False) -> None:
        self.clock = FakeClock()
        self.channel = RequestChannel(self.clock, capacity_count, node_id=1)
        self.answers = Answers(handles_inline=handles_inline)
        self.channel.add_processor(self.answers)

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
