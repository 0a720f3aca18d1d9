"""OAUTHBEARER: a token that somebody else gave the client (RFC 7628, KIP-255)."""

from __future__ import annotations

import json
import logging
import re
from typing import Final

from fastprod.broker.network.sasl.bearer_token import BearerToken, TokenValidator
from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError

_log = logging.getLogger(__name__)

_NAME: Final = r"(?:[^,=\0\x01]|=2C|=3D)+"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>.*\x01)\x01", re.S)
_PAIR: Final = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]*)")
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-A-Za-z0-9._~+/]+=*) *")
_SEEN: Final = b"\x01"
_RESERVED: Final = "auth"


class OAuthBearer:
    """The broker's side of OAUTHBEARER; see `ServerMechanism`.

    A token that is not valid is answered with why, as JSON; the exchange fails when the client has
    seen that. Extensions (KIP-342) are read and not used.

    Args:
        validator: says whose token it is.
    """

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refusal: str | None = None
        self.is_done = False
        self.user = ""
        self.expires_ms: int | None = None

    def next(self, token: bytes) -> bytes:
        """Take the token, or the client's word that it has seen the refusal."""
        if self._refusal is not None:
            raise InvalidCredentialsError(self._refusal if token == _SEEN else None)
        claimed, bearer = _parsed(token)
        found = self._validated(bearer)
        if found is None:
            self._refusal = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._refusal.encode()
        if claimed not in ("", found.principal):
            raise InvalidCredentialsError(
                f"Authentication failed: Client requested an authorization id ({claimed}) that is "
                f"different from the token's principal name ({found.principal})"
            )
        self.user = found.principal
        self.expires_ms = found.expires_ms
        self.is_done = True
        return b""

    def _validated(self, bearer: str) -> BearerToken | None:
        try:
            found = self._validator(bearer)
        except Exception as error:
            # Not its text nor where it was raised: both may hold the token.
            _log.warning("a bearer token is refused: its validator raised %s", type(error).__name__)
            return None
        return BearerToken(found, None) if isinstance(found, str) and found else found or None


def _parsed(token: bytes) -> tuple[str, str]:
    """The authorization id and the bearer token of a client's first message."""
    try:
        found = _FIRST.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise InvalidCredentialsError
    bearer = None
    for pair in found["pairs"].split("\x01")[:-1]:
        if (each := _PAIR.fullmatch(pair)) is None:
            raise InvalidCredentialsError
        if each["key"] == _RESERVED:
            bearer = _BEARER.fullmatch(each["value"])
    if bearer is None:
        raise InvalidCredentialsError
    name = found["authorization"] or ""
    return name.replace("=2C", ",").replace("=3D", "="), bearer["token"]
