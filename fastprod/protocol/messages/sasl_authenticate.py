"""SaslAuthenticate, key 36."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import SASL_AUTHENTICATE
from fastprod.protocol.schema import BYTES, INT16, INT64, STRING, field, message


@message
class SaslAuthenticateRequest:
    """A token of the mechanism that was chosen."""

    auth_bytes: bytes = field(BYTES)


@message
class SaslAuthenticateResponse:
    """The server's token; with an error it says why."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, "1+")


API = Api(
    SASL_AUTHENTICATE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    versions=(0, 2),
    flexible_from=2,
)
