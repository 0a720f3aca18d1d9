"""SaslExchanges: lets the log of requests and the faults see what SaslAuthenticators handle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastprod.broker.faults.hooks import Action, Faults
from fastprod.broker.network.request import Request, SizedBuffer
from fastprod.broker.server.request_log import RequestLog
from fastprod.protocol.api_keys import SASL_AUTHENTICATE


class SaslExchanges:
    """The `Onlooker` of every SaslAuthenticator. Any thread.

    Args:
        faults: asked before and after each request.
        request_log: told of each request, not of its tokens: they may be passwords.
    """

    def __init__(self, faults: Faults, request_log: RequestLog) -> None:
        self._faults = faults
        self._request_log = request_log

    def note(self, request: Request, message: Any) -> None:
        """Remember a request, without its token."""
        is_secret = request.header.api_key == SASL_AUTHENTICATE
        self._request_log.add(request, None if is_secret else message)

    def before(self, request: Request, message: Any) -> int | Action | None:
        """Say what happens to a request."""
        return self._faults.before(request, message)

    def after(
        self, request: Request, parts: Sequence[SizedBuffer] | None
    ) -> Sequence[SizedBuffer] | Action | None:
        """Say what happens to an answer."""
        return self._faults.after(request, parts)
