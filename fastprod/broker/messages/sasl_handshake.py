"""SaslHandshake, key 17."""

from __future__ import annotations

from fastprod.broker.schema import INT16, STRING, Array, field, message


@message
class SaslHandshakeRequest:
    """The client chooses how it will say who it is."""

    mechanism: str = field(STRING)


@message
class SaslHandshakeResponse:
    """Whether that is taken, and what is."""

    error_code: int = field(INT16)
    mechanisms: list[str] = field(Array(STRING))
