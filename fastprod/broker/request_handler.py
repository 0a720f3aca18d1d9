"""How one request, or one callback of it, is handled, whatever thread does it (A5.4)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import ParamSpec, Protocol

from fastprod.broker.clock import Clock
from fastprod.broker.request import Request
from fastprod.broker.request_channel import CallbackRequest, RequestChannel

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")


class RequestHandler(Protocol):
    """What answers the requests: KafkaApis. Called by several threads if there are several."""

    def handle(self, request: Request) -> None:
        """Answer `request`, or see to it that somebody will. Must not wait for others (A5.6)."""

    def failed(self, request: Request, error: Exception) -> None:
        """`handle` or a callback raised `error`: answer with it if `request` is unanswered."""

    def try_complete_actions(self) -> None:
        """Do what the last request left to be done outside of its locks (A5.6)."""


class _Current(threading.local):
    request: Request | None = None


_current = _Current()


def handle_request(handler: RequestHandler, request: Request, clock: Clock) -> None:
    """Have `request` handled. No exception gets out; what ends threads does."""
    _current.request = request
    try:
        handler.handle(request)
    except Exception as error:
        _tell_failed(handler, request, error)
    finally:
        request.local_done_ns = clock.monotonic_ns()
        _current.request = None
    _complete_actions(handler)


def handle_callback(handler: RequestHandler, callback: CallbackRequest, clock: Clock) -> None:
    """Run `callback` as if its request were still being handled."""
    request = callback.request
    started_ns = clock.monotonic_ns()
    _current.request = request
    try:
        callback.function()
    except Exception as error:
        _tell_failed(handler, request, error)
    finally:
        request.callback_ns += clock.monotonic_ns() - started_ns
        _current.request = None
    _complete_actions(handler)


def _tell_failed(handler: RequestHandler, request: Request, error: Exception) -> None:
    try:
        handler.failed(request, error)
    except Exception:
        _log.exception("no answer to %r after %r", request, error)
    if not request.answered:
        request.close_connection()


def _complete_actions(handler: RequestHandler) -> None:
    try:
        handler.try_complete_actions()
    except Exception:
        _log.exception("what a request left to be done has failed")


def wrap_async_callback(
    channel: RequestChannel, request: Request, function: Callable[_P, object]
) -> Callable[_P, None]:
    """Make `function` run in a handler's thread, whoever calls the result.

    At once if the caller is handling `request` just then; otherwise it is queued before the
    requests that wait (KafkaRequestHandler.wrapAsyncCallback, A5.2).
    """

    def resume(*args: _P.args, **kwargs: _P.kwargs) -> None:
        if _current.request is request:
            function(*args, **kwargs)
        else:
            channel.send_callback(lambda: _discard(function(*args, **kwargs)), request)

    return resume


def _discard(_result: object) -> None:
    """A callback's result is nobody's."""
