"""Answers that come late, in pieces, cut short, or not at all."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from fastprod.broker.faults.target import Place
from fastprod.broker.network.request import (
    CloseConnectionResponse,
    PieceResponse,
    Request,
    ResponseQueue,
    SendResponse,
    SizedBuffer,
)

_pack_size = struct.Struct(">i").pack
_CORRELATION_ID_BYTES: Final = 4


class Held(Protocol):
    """Holds actions back until their time, or until a reset."""

    @property
    def is_released(self) -> bool:
        """Whether there was a reset: nothing is held back or changed any more."""

    def hold(self, delay_ms: float, action: Callable[[], None], /) -> None:
        """Call `action` after `delay_ms`, at once if that is 0 or after a reset; never blocks."""


class Dribble(NamedTuple):
    """How an answer is cut into pieces.

    Attributes:
        chunk_bytes: size of all but the last.
        pause_ms: between two of them.
    """

    chunk_bytes: int
    pause_ms: float


class AnswerPlan:
    """How one request is answered. Delays and pieces hold until the faults are reset.

    Attributes:
        held: holds it back.
        delay_ms: how long it is held back.
        dribble: it is written in pieces.
        truncate_to_bytes: after so many bytes the connection is closed.
        is_lost: the connection is closed instead.
        is_answered: the request has been answered already.
        is_garbled: all but its correlation id makes no sense.
        refused: errors to put into it.
        names: of topics that it has the ids of.
    """

    __slots__ = (
        "delay_ms",
        "dribble",
        "held",
        "is_answered",
        "is_garbled",
        "is_lost",
        "names",
        "refused",
        "truncate_to_bytes",
    )

    def __init__(
        self,
        held: Held,
        *,
        delay_ms: float = 0,
        dribble: Dribble | None = None,
        truncate_to_bytes: int | None = None,
        is_lost: bool = False,
        is_answered: bool = False,
        refused: dict[Place, int] | None = None,
    ) -> None:
        self.held = held
        self.delay_ms = delay_ms
        self.dribble = dribble
        self.truncate_to_bytes = truncate_to_bytes
        self.is_lost = is_lost
        self.is_answered = is_answered
        self.is_garbled = False
        self.refused = {} if refused is None else refused
        self.names: dict[bytes, str] = {}

    @property
    def sends_as_usual(self) -> bool:
        """Whether the answer goes out at once, whole, and nothing else with it."""
        return not (
            self.delay_ms or self.dribble or self.is_lost or self.truncate_to_bytes is not None
        )


def garbled(parts: Sequence[SizedBuffer]) -> list[SizedBuffer]:
    """Return an answer of the same size and for the same request, with every other bit flipped."""
    answer = b"".join(parts)
    body = bytes(each ^ 0xFF for each in answer[_CORRELATION_ID_BYTES:])
    return [answer[:_CORRELATION_ID_BYTES] + body]


class PlannedAnswer:
    """The action that answers as planned.

    Args:
        plan: how.
        parts: header and body; None: no answer is sent (acks=0).
        is_changed: whether `parts` differ from what `go_on` would send.
    """

    def __init__(
        self, plan: AnswerPlan, parts: Sequence[SizedBuffer] | None, is_changed: bool
    ) -> None:
        self._plan = plan
        self._parts = parts
        self._is_changed = is_changed

    def take(self, request: Request, go_on: Callable[[], None]) -> None:
        """Answer after the delay."""
        plan = self._plan
        plan.held.hold(plan.delay_ms, lambda: self._answer(request, go_on))

    def _answer(self, request: Request, go_on: Callable[[], None]) -> None:
        plan, parts = self._plan, self._parts
        as_usual = plan.held.is_released
        if plan.is_lost and not as_usual:
            request.close_connection()
        elif parts is None:
            go_on()
        elif (plan.truncate_to_bytes is not None or plan.dribble is not None) and not as_usual:
            PiecewiseAnswer(request, parts, plan).go_on()
        elif self._is_changed:
            request.respond(parts)
        else:
            go_on()


class PiecewiseAnswer:
    """Writes an answer piece by piece; the Processor's thread and the timer take turns.

    After a reset the rest goes out in one piece; an answer to be truncated still is.

    Args:
        request: to answer.
        parts: header and body.
        plan: `dribble` and `truncate_to_bytes`.
    """

    def __init__(self, request: Request, parts: Sequence[SizedBuffer], plan: AnswerPlan) -> None:
        framed = b"".join((_pack_size(sum(map(len, parts))), *parts))
        self._is_truncated = plan.truncate_to_bytes is not None
        self._left = memoryview(framed)[: plan.truncate_to_bytes]
        self._dribble = plan.dribble or Dribble(len(framed), 0)
        self._request = request
        self._held = plan.held
        self._queue: ResponseQueue = request.answer_in_pieces()

    def go_on(self) -> None:
        """Write the next piece, and plan the one after it."""
        piece = self._left
        if not self._held.is_released:
            piece = piece[: self._dribble.chunk_bytes]
        self._left = self._left[len(piece) :]
        request = self._request
        if not piece:
            self._queue.send_response(CloseConnectionResponse(request, request.on_sent))
        elif self._left or self._is_truncated:
            self._queue.send_response(PieceResponse(request, (piece,), len(piece), self._written))
        else:
            last = SendResponse(request, (piece,), len(piece), request.on_sent)
            self._queue.send_response(last)

    def _written(self) -> None:
        if not self._request.connection.is_open:
            # The connection has ended; the request must be counted all the same.
            self._left = self._left[:0]
        self._held.hold(self._dribble.pause_ms if self._left else 0, self.go_on)
