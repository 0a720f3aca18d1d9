"""A request on its way through the broker, and the things a Processor can be told to do."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence, Set
from typing import ClassVar, NamedTuple, Protocol

from fastprod._core.io.server_selector import Frame
from fastprod.broker.network.connection import Connection
from fastprod.errors import IllegalStateError
from fastprod.protocol.api_keys import PRODUCE

_log = logging.getLogger(__name__)
_SHORT_LENGTH = 80
_NOTHING: Set[str | None] = frozenset()
_PRODUCE = PRODUCE.to_bytes(2, "big")
_pack_size = struct.Struct(">i").pack


class SizedBuffer(Protocol):
    """bytes, bytearray, Frame, or a memoryview of bytes: `len` is its size in bytes."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def __len__(self) -> int: ...


class RequestHeader(NamedTuple):
    """The header of a request, whatever its version.

    Attributes:
        api_key: which API.
        version: of the API.
        correlation_id: to be repeated by the response.
        client_id: the client's name for itself.
        body_offset: first byte of the body in the frame.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


ParseHeader = Callable[[memoryview], RequestHeader]
"""Reads the header of a frame; any exception from it closes the connection (B-A3.7)."""


class ResponseQueue(Protocol):
    """What a Request needs of the RequestChannel it came through."""

    def send_response(self, response: Response) -> None:
        """Hand `response` to the Processor of its connection. Any thread; does not block."""


def produce_first(frames: list[Frame]) -> Sequence[list[Frame]]:
    """Frames of one turn, in groups that are handled and answered one by one: Produce, the rest.

    A client that logs in, or asks what there is, waits for what Produce takes; the reverse would be
    some three times as long.
    """
    if len(frames) < 2:
        return (frames,)
    groups: tuple[list[Frame], list[Frame]] = ([], [])
    for frame in frames:
        groups[memoryview(frame)[:2] != _PRODUCE].append(frame)
    return groups


class Request:
    """One received request. Answer it once: `respond` or `close_connection`, from any thread.

    Attributes:
        frame: the whole request without its size prefix; owns its memory and is writable.
        header: its parsed header.
        connection: where it came from.
        node_id: node whose listener it came in on.
        throttle_ms: how long its answer throttles the connection.
        error_counts: error code -> how often the answer has it, for `ErrorsPerSec`; the handler
            may set it before it answers.
        metrics_alias: a second name it is counted under (FetchConsumer, FetchFollower); the
            handler may set it before it answers.
        on_sent: called once when the answer has been written or can no longer be, unless `respond`
            is given something else to call; the handler may set it before it answers.
        fault: how a fault changes its answer (`planned_faults`), or None.
        withheld: topics that must not be created, because a fault refuses them.
        received_ns: read from the socket; like all the times -1 until it has happened.
        dequeued_ns: taken by a handler.
        local_done_ns: the handler returned; what follows is waiting for others.
        response_enqueued_ns: answered.
        response_dequeued_ns: taken by the Processor.
        sent_ns: written, or given up.
    """

    __slots__ = (
        "_queue",
        "answered",
        "connection",
        "dequeued_ns",
        "error_counts",
        "fault",
        "frame",
        "header",
        "local_done_ns",
        "metrics_alias",
        "node_id",
        "on_sent",
        "received_ns",
        "response_dequeued_ns",
        "response_enqueued_ns",
        "sent_ns",
        "throttle_ms",
        "withheld",
    )

    def __init__(
        self,
        frame: Frame,
        header: RequestHeader,
        connection: Connection,
        node_id: int,
        received_ns: int,
        queue: ResponseQueue,
    ) -> None:
        self.frame = frame
        self.header = header
        self.connection = connection
        self.node_id = node_id
        self.received_ns = received_ns
        self.dequeued_ns = received_ns
        self.local_done_ns = -1
        self.response_enqueued_ns = -1
        self.response_dequeued_ns = -1
        self.sent_ns = -1
        self.throttle_ms = 0
        self.error_counts: dict[int, int] | None = None
        self.metrics_alias: str | None = None
        self.fault: object | None = None
        self.withheld: Set[str | None] = _NOTHING
        self.on_sent: Callable[[], None] | None = None
        self.answered = False
        self._queue = queue

    def respond(
        self,
        parts: Sequence[SizedBuffer] | None,
        throttle_ms: int = 0,
        on_complete: Callable[[], None] | None = None,
    ) -> None:
        """Answer. Once, from any thread; does not block.

        Args:
            parts: response header and body, without the size prefix; they are not copied and must
                not change until they are written. None: no answer is sent (acks=0).
            throttle_ms: > 0: the connection is not read for so long, although the answer goes out
                at once (KIP-219, B-A6.1).
            on_complete: called once, in the Processor's thread or the one that stops it, when the
                answer has been written or can no longer be (B-A3.5).

        Raises:
            IllegalStateError: it has been answered before.
        """
        self._answer_once()
        on_complete = on_complete or self.on_sent
        if throttle_ms > 0:
            self.throttle_ms = throttle_ms
            self._queue.send_response(StartThrottlingResponse(self, throttle_ms))
        if parts is None:
            self._queue.send_response(NoOpResponse(self, on_complete))
        else:
            self._queue.send_response(SendResponse(self, *_framed(parts), on_complete))

    def close_connection(self) -> None:
        """End the connection instead of answering: acks=0 has no other way to fail (B-A6.3).

        Raises:
            IllegalStateError: it has been answered before.
        """
        self._answer_once()
        self._queue.send_response(CloseConnectionResponse(self, self.on_sent))

    def refuse(self, parts: Sequence[SizedBuffer] | None, delay_ms: int) -> None:
        """Answer in `delay_ms`, and then end the connection: guessing passwords takes time.

        Args:
            parts: as of `respond`; None: end the connection without an answer.
            delay_ms: 0: at once.

        Raises:
            IllegalStateError: it has been answered before.
        """
        self._answer_once()
        self._queue.send_response(RefusalResponse(self, parts, delay_ms))

    def answer_in_pieces(self) -> ResponseQueue:
        """Claim the answer; the caller puts PieceResponses, and at last an answer, into the queue.

        Each follows the `on_complete` of the one before it.

        Raises:
            IllegalStateError: it has been answered before.
        """
        self._answer_once()
        return self._queue

    def _answer_once(self) -> None:
        if self.answered:
            raise IllegalStateError(f"{self!r} has been answered before")
        self.answered = True

    def __repr__(self) -> str:
        """Without the body: it may hold secrets and private records."""
        key, version, correlation_id, client_id, _ = self.header
        return (
            f"Request(api_key={key}, version={version}, correlation_id={correlation_id}, "
            f"client_id={shortened(client_id)}, {len(self.frame)} bytes, {self.connection.id})"
        )


def _framed(parts: Sequence[SizedBuffer]) -> tuple[Sequence[SizedBuffer], int]:
    """The parts with their size prefix before them, and how many bytes that is."""
    size_bytes = sum(map(len, parts))
    return (_pack_size(size_bytes), *parts), size_bytes + 4


def shortened(text: str | None) -> str:
    """What a client says, for a log: quoted, and no longer than a line."""
    if text is None or len(text) <= _SHORT_LENGTH:
        return repr(text)
    return f"{text[:_SHORT_LENGTH]!r}... ({len(text)} characters)"


class Response:
    """What a Processor is told to do about a request (B-A3.3).

    Attributes:
        request: the request.
        on_complete: called once, when the response has had its effect or can have none (B-A3.5).
        is_answer: False for what accompanies the request's one answer, such as a throttle's start.
    """

    __slots__ = ("on_complete", "request")
    is_answer: ClassVar[bool] = True

    def __init__(self, request: Request, on_complete: Callable[[], None] | None = None) -> None:
        self.request = request
        self.on_complete = on_complete


def complete(response: Response) -> None:
    """Run its `on_complete`, if that has not happened yet. No exception gets out."""
    on_complete, response.on_complete = response.on_complete, None
    if on_complete is None:
        return
    try:
        on_complete()
    except Exception:
        _log.exception("what was to follow the answer to %r has failed", response.request)


class SendResponse(Response):
    """Write `parts`, `size_bytes` in all, size prefix included."""

    __slots__ = ("parts", "size_bytes")

    def __init__(
        self,
        request: Request,
        parts: Sequence[SizedBuffer],
        size_bytes: int,
        on_complete: Callable[[], None] | None = None,
    ) -> None:
        self.request = request
        self.on_complete = on_complete
        self.parts = parts
        self.size_bytes = size_bytes


class PieceResponse(SendResponse):
    """Write some bytes of an answer whose end is yet to come: the connection stays muted."""

    __slots__ = ()
    is_answer = False


class RefusalResponse(SendResponse):
    """Write `parts` when `delay_ms` have passed, then close the connection."""

    __slots__ = ("delay_ms",)

    def __init__(
        self, request: Request, parts: Sequence[SizedBuffer] | None, delay_ms: int
    ) -> None:
        framed, size_bytes = ((), 0) if parts is None else _framed(parts)
        super().__init__(request, framed, size_bytes, request.on_sent)
        self.delay_ms = delay_ms


class NoOpResponse(Response):
    """Nothing is written; the connection may be read again (acks=0)."""

    __slots__ = ()


class CloseConnectionResponse(Response):
    """Close the connection."""

    __slots__ = ()


class StartThrottlingResponse(Response):
    """Keep the connection muted although the answer goes out; precedes it (KIP-219).

    Attributes:
        throttle_ms: the Processor ends it after so long; None: an EndThrottlingResponse does.
    """

    __slots__ = ("throttle_ms",)
    is_answer = False

    def __init__(self, request: Request, throttle_ms: int | None = None) -> None:
        super().__init__(request)
        self.throttle_ms = throttle_ms


class EndThrottlingResponse(Response):
    """The throttle is over."""

    __slots__ = ()
    is_answer = False
