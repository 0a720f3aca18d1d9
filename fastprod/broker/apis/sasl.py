"""SaslHandshake and SaslAuthenticate where they are out of place."""

from __future__ import annotations

from fastprod.broker import codes
from fastprod.broker.apis.call import Call
from fastprod.broker.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from fastprod.broker.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class SaslHandshakeApi:
    """Handles what no SaslAuthenticator has claimed: its listener asks nobody. Any thread."""

    def handle(self, call: Call[SaslHandshakeRequest]) -> None:
        """Answer ILLEGAL_SASL_STATE."""
        self.refuse(call, codes.ILLEGAL_SASL_STATE, None)

    def refuse(self, call: Call[SaslHandshakeRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(SaslHandshakeResponse(error_code=code, mechanisms=[]))


class SaslAuthenticateApi:
    """Handles what no SaslAuthenticator has claimed: a handshake goes before it. Any thread."""

    def handle(self, call: Call[SaslAuthenticateRequest]) -> None:
        """Answer ILLEGAL_SASL_STATE."""
        self.refuse(call, codes.ILLEGAL_SASL_STATE, "SaslAuthenticate without a SaslHandshake")

    def refuse(self, call: Call[SaslAuthenticateRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(SaslAuthenticateResponse(error_code=code, error_message=text, auth_bytes=b""))
