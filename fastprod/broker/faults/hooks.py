"""Hooks of the faults: before a request is handled, and before it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fastprod.broker.network.request import Request, SizedBuffer


class Action(Protocol):
    """What a fault does to a request in place of the next step.

    The request is the action's from then on: it calls `go_on` once, at any later time and on any
    thread, or closes the connection (`request.close_connection()`), or does nothing: then the
    client waits until its own time-out.
    """

    def take(self, request: Request, go_on: Callable[[], None]) -> None:
        """Take the request over; `go_on` does what would have come next."""


class Close:
    """Close the connection without an answer."""

    def take(self, request: Request, go_on: Callable[[], None]) -> None:
        """Close it."""
        request.close_connection()


class Drop:
    """Never answer: the connection stays open and silent."""

    def take(self, request: Request, go_on: Callable[[], None]) -> None:
        """Forget the request."""


class Park:
    """Hold the request until `release` is called, from any thread."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def take(self, request: Request, go_on: Callable[[], None]) -> None:
        """Keep it."""
        self._waiting.append(go_on)

    def release(self) -> None:
        """Let everything that is held go on."""
        while self._waiting:
            self._waiting.pop(0)()


class Faults:
    """The questions that `KafkaApis` asks, answered for no faults at all."""

    @property
    def is_called_by_interceptor(self) -> bool:
        """Whether this thread is the broker's and runs a test's function: it must not block."""
        return False

    def before(self, request: Request, message: Any) -> int | Action | None:
        """Say what happens to a decoded request.

        Returns:
            None: it is handled; an error code: every topic and partition of it is answered with
            that code, and nothing is done; an action: it takes the request.
        """
        return None

    def after(
        self, request: Request, parts: Sequence[SizedBuffer] | None
    ) -> Sequence[SizedBuffer] | Action | None:
        """Say what happens to an answer: header and body, without size prefix; None for acks=0.

        Returns:
            None: it is sent as it is; parts: they are sent in its place; an action: it takes the
            request, and its `go_on` sends the answer.
        """
        return None
