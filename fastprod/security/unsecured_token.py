"""UnsecuredToken: tokens without a signature, which brokers for tests take (KIP-255)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastprod.errors import ConfigError
from fastprod.frozen import FrozenRecord

_LIFETIME_S: Final = 3600.0
_LONGEST_S: Final = 10.0 * 365 * 86_400


class UnsecuredToken(FrozenRecord):
    """Gives tokens that claim what is asked for, and are not signed: JWS with alg=none (RFC 7515).

    Attributes:
        claims: what each token says, beside `iat` and `exp`.
        lifetime_s: from its making to its end, in seconds.
    """

    claims: Mapping[str, Any]
    lifetime_s: float = _LIFETIME_S

    def token(self) -> str:
        """Return a new token."""
        import base64  # noqa: PLC0415
        import json  # noqa: PLC0415
        import time  # noqa: PLC0415

        def part(content: Mapping[str, Any]) -> str:
            data = json.dumps(content, separators=(",", ":")).encode()
            return base64.urlsafe_b64encode(data).decode().rstrip("=")

        now_s = time.time()
        end_s = now_s + self.lifetime_s
        return f"{part({'alg': 'none'})}.{part({**self.claims, 'iat': now_s, 'exp': end_s})}."


def unsecured_token(key: str, options: Mapping[str, str]) -> UnsecuredToken:
    """Return what Kafka's options ``unsecuredLogin...`` say, their names without that beginning.

    Raises:
        ConfigError: one is wrong, or there is no claim for the principal.

    Source: OAuthBearerUnsecuredLoginCallbackHandler of Kafka 4.3.0.
    """
    claims: dict[str, Any] = {}
    lifetime_s = _LIFETIME_S
    principal = options.get("PrincipalClaimName") or "sub"
    for name, value in options.items():
        kind, _, claim = name.partition("_")
        if name == "LifetimeSeconds":
            lifetime_s = _number(key, value, 1, _LONGEST_S)
        elif kind == "StringClaim" and claim:
            claims[claim] = value
        elif kind == "NumberClaim" and claim:
            claims[claim] = _number(key, value, float("-inf"), float("inf"))
        elif kind == "ListClaim" and claim:
            # The first character stands between the items.
            claims[claim] = value[1:].split(value[0]) if value else []
        elif name not in ("PrincipalClaimName", "ScopeClaimName"):
            raise ConfigError(f"{key}: there is no unsecuredLogin{kind}", key=key)
    if not claims.get(principal):
        raise ConfigError(
            f"{key}: unsecuredLoginStringClaim_{principal} is missing: the token must say who the "
            f"client is",
            key=key,
        )
    return UnsecuredToken(claims, lifetime_s)


def configured_token(key: str, text: str) -> tuple[UnsecuredToken, dict[str, str]]:
    """Return what librdkafka's sasl.oauthbearer.config says: the token, and the extensions.

    Raises:
        ConfigError: it is not of the form ``principal=NAME scope=A,B lifeSeconds=600 ...``.
    """
    found: dict[str, str] = {}
    extensions: dict[str, str] = {}
    for item in text.split():
        name, equals, value = item.partition("=")
        if not equals or not value:
            raise ConfigError(f"{key} must be name=value, with spaces between", key=key)
        if name.startswith("extension_"):
            extensions[name.removeprefix("extension_")] = value
        else:
            found[name] = value
    if "principal" not in found:
        raise ConfigError(f"{key} has no principal=...", key=key)
    claims: dict[str, Any] = {found.get("principalClaimName", "sub"): found["principal"]}
    if "scope" in found:
        claims[found.get("scopeClaimName", "scope")] = found["scope"].split(",")
    lifetime_s = _number(key, found.get("lifeSeconds", "3600"), 1, _LONGEST_S)
    return UnsecuredToken(claims, lifetime_s), extensions


def _number(key: str, text: str, low: float, high: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise ConfigError(f"{key}: a number is malformed or not in {low:g}..{high:g}", key=key)
    return number
