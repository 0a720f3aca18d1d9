"""SaslHandshake and SaslAuthenticate on a listener without authentication."""

from __future__ import annotations

from fastprod.broker.server.apis.call import Call
from fastprod.error_codes import ILLEGAL_SASL_STATE
from fastprod.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class SaslHandshakeApi:
    """Handles SaslHandshake on a listener without a SaslAuthenticator. Any thread."""

    def handle(self, call: Call[SaslHandshakeRequest]) -> None:
        """Answer ILLEGAL_SASL_STATE."""
        self.refuse(call, ILLEGAL_SASL_STATE, None)

    def refuse(self, call: Call[SaslHandshakeRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(SaslHandshakeResponse(error_code=code, mechanisms=[]))


class SaslAuthenticateApi:
    """Handles SaslAuthenticate without a handshake before it. Any thread."""

    def handle(self, call: Call[SaslAuthenticateRequest]) -> None:
        """Answer ILLEGAL_SASL_STATE."""
        self.refuse(call, ILLEGAL_SASL_STATE, "SaslAuthenticate without a SaslHandshake")

    def refuse(self, call: Call[SaslAuthenticateRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(SaslAuthenticateResponse(error_code=code, error_message=text, auth_bytes=b""))
