"""Why a client made no TLS connection, in words that say what to change."""

from __future__ import annotations

from typing import Final

_UNKNOWN: Final = "OpenSSL does not say why"

_HINTS: Final = (
    (
        "http request",
        "the client speaks HTTP, or plain text; Kafka's clients set security.protocol",
    ),
    ("wrong version number", "the client does not speak TLS: set its security.protocol to SSL"),
    ("unsupported protocol", "the client offers no version of TLS that is allowed: 1.2 or 1.3"),
    ("unknown ca", "the client does not trust the broker's certificate: give it the CA file"),
    ("certificate unknown", "the client does not accept the broker's certificate"),
    ("bad certificate", "the client does not accept the broker's certificate"),
    ("certificate expired", "the broker's certificate has expired: replace it"),
    ("peer did not return a certificate", "ssl_client_auth is required: give the client one"),
    (
        "certificate verify failed",
        "the client's certificate is not one that ssl_cafile vouches for",
    ),
    ("no shared cipher", "client and broker have no cipher in common"),
)


def tls_failure(text: str) -> str:
    """What OpenSSL says, and what it means.

    Args:
        text: lines of key=value, as `Disconnect.tls_text` has them.
    """
    said = dict(line.partition("=")[::2] for line in text.splitlines())
    reason = said.get("reason") or _UNKNOWN
    parts = [reason]
    if said.get("verified"):
        parts.append(f"({said['verified']}; {said.get('subject') or 'no subject'})")
    lowered = reason.lower()
    parts += [f"- {hint}" for words, hint in _HINTS if words in lowered][:1]
    return " ".join(parts)
