"""ControlRequests: the requests of the control thread that are under way, by their tokens."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.client.engine_view import EngineView
from fastprod.protocol.api_keys import API_VERSIONS


class PendingRequest(NamedTuple):
    """A control request under way."""

    api_key: int
    version: int
    node_id: int
    exchange: object = None
    """The SASL exchange that it belongs to; None: it is no part of one."""
    spare: int | None = None
    """The engine's number for the spare connection that it goes over; None: it is the node's."""


class ControlRequests:
    """Sends them, and knows which one an answer is for. Used by the control thread.

    Args:
        engine: sends.
        slot: ``slot(node_id)``: the engine's number for a node.

    Attributes:
        has_answers: whether any broker has answered anything but ApiVersions.
    """

    def __init__(self, engine: EngineView, slot: Callable[[int], int]) -> None:
        self._engine = engine
        self._slot = slot
        self._tokens = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}
        self.has_answers = False

    def send(
        self,
        frame: bytes,
        pending: PendingRequest,
        releases: bytes = b"",
        *,
        ending: int = 0,
        question: tuple[int, bytes, bytes, bytes] | None = None,
    ) -> int:
        """Send a request; returns the token that its answer will have.

        An answer that begins with `releases` ends a `hold` of its node. `ending`: it goes at that
        end of a transaction, or must be forgotten. `question`: asked behind the answer.
        """
        token = next(self._tokens)
        self._pending[token] = pending
        slot = self._slot(pending.node_id) if pending.spare is None else pending.spare
        if question is not None:
            self._engine.send_frame(slot, token, frame, releases, ending, question)
        elif releases or ending:
            self._engine.send_frame(slot, token, frame, releases, ending)
        else:
            self._engine.send_frame(slot, token, frame)
        return token

    def forget(self, token: int) -> None:
        """A request that will not go, and has no answer."""
        self._pending.pop(token, None)

    def take(self, event: ControlEvent) -> PendingRequest:
        """The request that an ON_RESPONSE event answers; it is no longer under way."""
        pending = self._pending.pop(event.token)
        if event.data is not None and pending.api_key != API_VERSIONS:
            self.has_answers = True
        return pending
