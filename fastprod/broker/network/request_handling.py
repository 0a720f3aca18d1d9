"""How one request is handled, whatever thread does it (B-A5.4)."""

from __future__ import annotations

import logging
from typing import Protocol

from fastprod.broker.network.request import Request
from fastprod.broker.threads.clock import Clock

_log = logging.getLogger(__name__)


class RequestHandler(Protocol):
    """What answers the requests: KafkaApis. Every handler thread calls it."""

    def handle(self, request: Request) -> None:
        """Answer `request`, now or later. Must not wait for other requests (B-A5.6)."""

    def failed(self, request: Request, error: Exception) -> None:
        """`handle` raised `error`: answer with it if `request` is unanswered."""

    def try_complete_actions(self) -> None:
        """Do what the last request left to do without its locks (B-A5.6)."""


def handle_request(handler: RequestHandler, request: Request, clock: Clock) -> None:
    """Have `request` handled; an Exception is told to `handler.failed`, others are raised."""
    request.dequeued_ns = clock.monotonic_ns()
    try:
        handler.handle(request)
    except Exception as error:
        _tell_failed(handler, request, error)
    finally:
        request.local_done_ns = clock.monotonic_ns()
    try:
        handler.try_complete_actions()
    except Exception:
        _log.exception("what a request left to be done has failed")


def _tell_failed(handler: RequestHandler, request: Request, error: Exception) -> None:
    try:
        handler.failed(request, error)
    except Exception:
        _log.exception("no answer to %r after %r", request, error)
    if not request.answered:
        request.close_connection()
