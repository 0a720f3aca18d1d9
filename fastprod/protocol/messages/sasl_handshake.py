"""SaslHandshake, key 17."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import SASL_HANDSHAKE
from fastprod.protocol.schema import INT16, STRING, Array, field, message


@message
class SaslHandshakeRequest:
    """The client chooses how it will say who it is."""

    mechanism: str = field(STRING)


@message
class SaslHandshakeResponse:
    """Whether that is taken, and what is."""

    error_code: int = field(INT16)
    mechanisms: list[str] = field(Array(STRING))


API = Api(
    SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse, versions=(0, 1), flexible_from=None
)
