"""Bearer tokens: what a validator says of one, and the validator of unsecured ones."""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fastprod.broker.threads.clock import Clock

_MS_PER_S = 1000
_URL_SAFE: Final = str.maketrans("-_", "+/")
_decoder: Final = json.JSONDecoder()


class BearerToken(NamedTuple):
    """A valid token.

    Attributes:
        principal: whose it is.
        expires_ms: milliseconds since 1970; its session ends then, unless the client authenticates
            again. None: never.
    """

    principal: str
    expires_ms: int | None


TokenValidator = Callable[[str], BearerToken | str | None]
"""Says whose token it is: a BearerToken, or the principal alone; None, or an exception: not valid.

Called by network threads, which it must not block.
"""


class UnsecuredTokens:
    """Validates JSON web tokens without a signature, `alg` none: for tests, anybody can make one.

    Args:
        clock: a token holds from `nbf` and `iat` on until `exp`, which it must have.
        principal_claim: the claim with the principal's name.
    """

    def __init__(self, clock: Clock, principal_claim: str = "sub") -> None:
        self._clock = clock
        self._principal_claim = principal_claim

    def __call__(self, token: str) -> BearerToken | None:
        """Whose token it is; None: it is none, or does not hold now."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            return None
        header, claims = (_json(part) for part in parts[:2])
        if header.get("alg") != "none":
            return None
        principal, expires_ms = claims.get(self._principal_claim), _ms(claims.get("exp"))
        if not isinstance(principal, str) or not principal or expires_ms is None:
            return None
        now_ms = self._clock.time_ms()
        begins = [_ms(claims[each]) for each in ("nbf", "iat") if each in claims]
        if now_ms >= expires_ms or any(each is None or each > now_ms for each in begins):
            return None
        return BearerToken(principal, expires_ms)


def _json(part: str) -> dict[str, Any]:
    """A part of a token; empty if it is no object."""
    try:
        # By the plain parts of base64 and json: others wait while a client logs in.
        data = binascii.a2b_base64(part.translate(_URL_SAFE) + "=" * (-len(part) % 4))
        found = _decoder.decode(data.decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _ms(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return int(seconds * _MS_PER_S) if -1e12 < seconds < 1e12 else None
