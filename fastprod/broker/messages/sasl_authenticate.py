"""SaslAuthenticate, key 36."""

from __future__ import annotations

from fastprod.broker.schema import BYTES, INT16, INT64, STRING, field, message


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
