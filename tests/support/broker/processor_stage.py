"""A Processor on real loopback sockets, with everything around it in the test's hands."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from fastprod._core.io.server_selector import PollEvents, ServerSelector
from fastprod._core.tls.tls_context import TlsContext
from fastprod.broker.config import BrokerConfig
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.handler_pool import KafkaRequestHandlerPool
from fastprod.broker.network.processor import Processor
from fastprod.broker.network.request import ParseHeader, Request, RequestHeader
from fastprod.broker.network.request_channel import RequestChannel
from fastprod.broker.network.request_metrics import ApiMetrics, RequestMetrics
from fastprod.broker.threads.clock import Clock, SystemClock
from support.oracle.loopback import read_exactly
from support.processes.closing import Closing

PATIENCE_S = 20.0
MAX_BYTES = 1 << 20
PRODUCE, ECHO, API_VERSIONS, DISABLED = 0, 1, 18, 7

_HEADER = struct.Struct(">hhi")
_NAMES = {PRODUCE: "Produce", ECHO: "Echo", API_VERSIONS: "ApiVersions"}


SETTINGS = BrokerConfig(socket_request_max_bytes=MAX_BYTES)


def payload(body: bytes = b"", key: int = ECHO, version: int = 0, correlation_id: int = 0) -> bytes:
    """A request that `parse_header` understands."""
    return _HEADER.pack(key, version, correlation_id) + body


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def request(body: bytes = b"", key: int = ECHO, version: int = 0, correlation_id: int = 0) -> bytes:
    """The same with its size."""
    return framed(payload(body, key, version, correlation_id))


def parse_header(frame: memoryview) -> RequestHeader:
    key, version, correlation_id = _HEADER.unpack_from(frame)
    if key not in _NAMES:
        raise ValueError(f"no api {key} on this listener")
    return RequestHeader(key, version, correlation_id, "client", _HEADER.size)


class CountingQuotas:
    """Counts connections by address; may be told that there are too many, or that it fails."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.exceeded = False
        self.failure: Exception | None = None

    def inc(self, address: str) -> None:
        self.counts[address] += 1

    def dec(self, listener_name: str, address: str) -> None:
        assert self.counts[address] > 0, f"{address} is uncounted more often than counted"
        self.counts[address] -= 1
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def max_connections_exceeded(self, listener_name: str) -> bool:
        return self.exceeded

    @property
    def total(self) -> int:
        return self.counts.total()


class Handler:
    """Answers with what `answer` does; None: keeps the request for the test."""

    def __init__(self, answer: Callable[[Request], None] | None) -> None:
        self.answer = answer
        self.received: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self.failures: list[Exception] = []
        self.actions = 0

    def handle(self, request: Request) -> None:
        if self.answer is not None:
            self.answer(request)
        self.received.put(request)

    def failed(self, request: Request, error: Exception) -> None:
        self.failures.append(error)

    def try_complete_actions(self) -> None:
        self.actions += 1


def echo(request: Request) -> None:
    request.respond([memoryview(request.frame)])


def say_nothing(request: Request) -> None:
    request.respond(None)


class FailingSelector:
    """A ServerSelector of which single steps can be made to fail.

    Steps: register, poll, send, mute, unmute. What `fail` is told is raised by the step's next
    calls instead of it; what `fail_after` is told, when it has been done.
    """

    def __init__(self, max_receive_bytes: int = MAX_BYTES, force_poll: bool = False) -> None:
        self._inner = ServerSelector(max_receive_bytes, force_poll)
        self._before: defaultdict[str, deque[BaseException]] = defaultdict(deque)
        self._after: defaultdict[str, deque[BaseException]] = defaultdict(deque)
        self.calls: Counter[str] = Counter()
        self.is_closed = False
        self.last_timeout_ms = 0.0

    def fail(self, step: str, *errors: BaseException) -> None:
        self._before[step].extend(errors)

    def fail_after(self, step: str, *errors: BaseException) -> None:
        self._after[step].extend(errors)

    def _call(self, step: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self.calls[step] += 1
        if self._before[step]:
            raise self._before[step].popleft()
        result = call(*arguments)
        if self._after[step]:
            raise self._after[step].popleft()
        return result

    def register(self, fd: int, tls: TlsContext | None = None) -> int:
        return cast(int, self._call("register", self._inner.register, fd, tls))

    def poll(self, timeout_ms: float, max_idle_ms: float = -1) -> PollEvents:
        self.last_timeout_ms = timeout_ms
        return cast(PollEvents, self._call("poll", self._inner.poll, timeout_ms, max_idle_ms))

    def send(self, channel_id: int, parts: Sequence[bytes]) -> int:
        return cast(int, self._call("send", self._inner.send, channel_id, parts))

    def mute(self, channel_id: int, muted: bool) -> None:
        self._call("mute" if muted else "unmute", self._inner.mute, channel_id, muted)

    def close(self) -> None:
        self._inner.close()
        self.is_closed = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class ProcessorStage(Closing):
    """One started Processor. Use it in a `with`.

    Args:
        answer: what handles a request; None: the test does, with `next_request`.
        threads: of the handler pool; 0: inline.
        settings: of the Processor.
        clock: None: the computer's.
        selector: of the Processor; None: its own.
        queue_capacity: of the RequestChannel.
        started: whether the Processor runs at once.
        processor_options: for the Processor.
    """

    def __init__(
        self,
        answer: Callable[[Request], None] | None = echo,
        *,
        threads: int = 0,
        settings: BrokerConfig = SETTINGS,
        clock: Clock | None = None,
        selector: FailingSelector | ServerSelector | None = None,
        queue_capacity: int = 500,
        started: bool = True,
        make: type[Processor] = Processor,
        parse: ParseHeader = parse_header,
        **processor_options: Any,
    ) -> None:
        self.clock = clock or SystemClock()
        self.quotas = CountingQuotas()
        self.handler = Handler(answer)
        self.metrics = RequestMetrics(
            name_of=_NAMES.__getitem__,
            is_deprecated=lambda key, version: version == 1,
        )
        self.channel = RequestChannel(self.clock, queue_capacity, node_id=5)
        self.ended: list[Connection] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.clients: list[socket.socket] = []
        self.processor = make(
            0,
            "PLAINTEXT",
            self.channel,
            self.quotas,
            settings,
            self.clock,
            parse,
            self.metrics,
            None if threads else self.handler,
            disconnect_listeners=[self.ended.append],
            selector=cast("ServerSelector | None", selector),
            **processor_options,
        )
        self.pool = None
        if threads:
            self.pool = KafkaRequestHandlerPool(self.channel, self.handler, threads, self.clock)
            self.pool.start()
        if started:
            self.processor.start()

    def connect(self, receive_buffer_bytes: int | None = None) -> socket.socket:
        """A client whose connection the Processor has taken over."""
        client, server = self.pair(receive_buffer_bytes)
        self.hand_over(server)
        return client

    def pair(self, buffer_bytes: int | None = None) -> tuple[socket.socket, socket.socket]:
        """A client and its accepted socket, which nobody has counted yet."""
        client = socket.socket()
        self.clients.append(client)
        if buffer_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        client.settimeout(PATIENCE_S)
        client.connect(self.listener.getsockname())
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.listener.settimeout(PATIENCE_S)
        server, _ = self.listener.accept()
        if buffer_bytes is not None:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        server.setblocking(False)
        return client, server

    def hand_over(self, server: socket.socket) -> None:
        self.quotas.inc(server.getpeername()[0])
        # Before the start nobody makes room.
        assert self.processor.accept(server, may_block=self.processor.turn_count > 0)

    def registered(self, client: socket.socket) -> Connection:
        """The Processor's end of `client`."""
        found: list[Connection] = []

        def look() -> bool:
            found[:] = [
                each
                for each in self.processor.connections()
                if each.remote_address == client.getsockname()
            ]
            return bool(found)

        self.until(look)
        return found[0]

    def next_request(self) -> Request:
        return self.handler.received.get(timeout=PATIENCE_S)

    def no_request(self) -> None:
        """None has come, although the loop went round since."""
        self.turn()
        assert self.handler.received.empty()

    def turn(self) -> None:
        """Have the loop go round twice: whatever was ready before has been looked at then."""
        for _ in range(2):
            before = self.processor.turn_count
            self.processor.wake()
            self.until(partial(self._has_turned, before))

    def _has_turned(self, before: int) -> bool:
        return self.processor.turn_count > before

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, f"not done after {PATIENCE_S} s"
            time.sleep(0.001)

    def all_gone(self) -> None:
        """Every connection has ended, is uncounted, and was told of once."""
        self.until(lambda: self.processor.connection_count == 0 and self.quotas.total == 0)
        self.until(lambda: len(self.ended) == self.processor.created_count)
        assert len(set(self.ended)) == len(self.ended)

    def metrics_of(self, api: str = "Echo") -> ApiMetrics:
        return self.metrics.snapshot().get(api, ApiMetrics())

    def close(self) -> None:
        self.processor.shutdown(PATIENCE_S)
        if self.pool is not None:
            self.pool.shutdown(PATIENCE_S)
        self.listener.close()
        for client in self.clients:
            client.close()


def exchange(client: socket.socket, body: bytes = b"ping") -> None:
    """One request and its echo."""
    client.sendall(request(body))
    assert read_frame(client) == payload(body)


def read_frame(client: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", read_exactly(client, 4))
    return read_exactly(client, size)


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of the stream, or a reset, without a byte before it."""
    try:
        return client.recv(1) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True


def reset(client: socket.socket) -> None:
    """End the connection as a process that is killed with unread bytes does."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


class UncaughtErrors:
    """What threads die of while it is in use."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def __enter__(self) -> UncaughtErrors:
        self._previous = threading.excepthook
        threading.excepthook = self._note
        return self

    def _note(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            self.errors.append(arguments.exc_value)

    def __exit__(self, *_: object) -> None:
        threading.excepthook = self._previous
