"""BearerToken: an access token, and until when it is good; read from what a callback returns."""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastprod.client.sasl.mechanism import MechanismError
from fastprod.security.secret import Secret

UNKNOWN_LIFE_S: Final = 300.0
"""A token that does not say when it ends counts as good for so long, and is then fetched anew."""

_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/]+=*\Z")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+\Z")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]*\Z")
_LEAST_MS: Final = 100_000_000_000
"""A larger number is a time in ms: in seconds it would be the year 5138."""
_PARTS_OF_A_JWT: Final = 3
_MOST_PARTS: Final = 4


class BearerToken(NamedTuple):
    """An access token.

    Attributes:
        value: the token itself.
        expires_s: its end, in seconds since the Unix epoch.
        principal: whom it stands for, if that is known; else "".
        extensions: sent with it (KIP-342).
    """

    value: Secret
    expires_s: float
    principal: str = ""
    extensions: Mapping[str, str] = {}


def read_token(
    answer: object, now_s: float, extensions: Mapping[str, str] | None = None
) -> BearerToken:
    """Read what a callback or an endpoint gave.

    Args:
        answer: a token, or a sequence (token, its end in seconds since the Unix epoch[, principal[,
            extensions]]), as confluent-kafka's oauth_cb returns it. Without an end that of a JWT is
            in its claim ``exp``; else it is taken to be good for five minutes.
        now_s: the time, in seconds since the Unix epoch.
        extensions: sent beside those of the answer.

    Raises:
        MechanismError: it is no token, has expired, or cannot be sent; the text has no token.
    """
    value, end, principal, more = _parts(answer)
    text = _checked_text(value)
    claims = _claims(text)
    if end is None:
        end = claims.get("exp")
    expires_s = now_s + UNKNOWN_LIFE_S if end is None else _seconds(end)
    if expires_s <= now_s:
        raise MechanismError(
            f"the token has expired {now_s - expires_s:,.0f} s ago, by this machine's clock"
        )
    subject = principal or claims.get("sub")
    return BearerToken(
        Secret(text),
        expires_s,
        subject if isinstance(subject, str) else "",
        checked_extensions({**(extensions or {}), **more}),
    )


def checked_extensions(extensions: Mapping[str, str]) -> Mapping[str, str]:
    """Return them if they can be sent.

    Raises:
        MechanismError: a name or a value is none (P-G.10.5).
    """
    for name, value in extensions.items():
        if not isinstance(name, str) or not _EXTENSION_NAME.match(name) or name == "auth":
            raise MechanismError(
                f"the extension {name!r} cannot be sent: a name has letters only, and 'auth' is "
                f"taken by the token"
            )
        if not isinstance(value, str) or not _EXTENSION_VALUE.match(value):
            raise MechanismError(
                f"the extension {name!r} cannot be sent: its value is no text in ASCII"
            )
    return dict(extensions)


def _parts(answer: object) -> tuple[object, Any, str, Mapping[str, str]]:
    if isinstance(answer, str | bytes):
        return answer, None, "", {}
    if not isinstance(answer, Sequence) or not 1 <= len(answer) <= _MOST_PARTS:
        raise MechanismError(
            f"the token callback returned {type(answer).__name__} where a token is due, or a tuple "
            f"(token, end in seconds since the Unix epoch[, principal[, extensions]])"
        )
    value, end, principal, extensions = (list(answer) + 3 * [None])[:_MOST_PARTS]
    if extensions is not None and not isinstance(extensions, Mapping):
        raise MechanismError("the token callback's extensions are no mapping")
    return value, end, principal if isinstance(principal, str) else "", extensions or {}


def _checked_text(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if not isinstance(value, str) or not value:
        found = "an empty text" if value == "" else type(value).__name__
        raise MechanismError(f"the token callback returned {found} in the place of a token")
    text = str.__str__(value)
    if not _TOKEN.match(text):
        raise MechanismError(
            "the token has characters that no token may have (RFC 6750), such as spaces or a line "
            "break at its end"
        )
    return text


def _seconds(end: object) -> float:
    if isinstance(end, bool) or not isinstance(end, int | float):
        raise MechanismError(
            f"the token's end is {type(end).__name__}, not a number of seconds since the Unix epoch"
        )
    try:
        seconds = float(end)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise MechanismError("the token's end is a number that no clock has")
    return seconds / 1000 if seconds > _LEAST_MS else seconds


def _claims(text: str) -> Mapping[str, Any]:
    """What a JWT says; nothing for any other token."""
    parts = text.split(".")
    if len(parts) != _PARTS_OF_A_JWT:
        return {}
    payload = parts[1].replace("-", "+").replace("_", "/")
    try:
        found = json.loads(binascii.a2b_base64(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
