"""Answers of a broker to the requests of SASL, as kio's codec writes them, without their sizes."""

from __future__ import annotations

from collections.abc import Mapping

from fastprod.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from support.oracle import kio_codec


def versions_answer(versions: Mapping[int, tuple[int, int]], error_code: int = 0) -> bytes:
    rows = [
        {"api_key": key, "min_version": low, "max_version": high}
        for key, (low, high) in versions.items()
    ]
    return _payload(API_VERSIONS, 0, {"error_code": error_code, "api_keys": rows})


def handshake_answer(error_code: int, *mechanisms: str) -> bytes:
    return _payload(SASL_HANDSHAKE, 1, {"error_code": error_code, "mechanisms": mechanisms})


def authenticate_answer(
    version: int,
    error_code: int = 0,
    text: str | None = None,
    *,
    token: bytes = b"",
    lifetime_ms: int = 0,
) -> bytes:
    fields: dict[str, object] = {
        "error_code": error_code,
        "error_message": text,
        "auth_bytes": token,
    }
    if version >= 1:
        fields["session_lifetime"] = lifetime_ms
    return _payload(SASL_AUTHENTICATE, version, fields)


def _payload(api_key: int, version: int, fields: dict[str, object]) -> bytes:
    return kio_codec.encode_response(api_key, version, 0, fields)[4:]
