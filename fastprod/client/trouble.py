"""What went wrong with a connection, in words a user can act on (design 6: errors name causes)."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from fastprod.api_versions import API_NAMES
from fastprod.client.events import CloseReason, Event

_FAULT_CORRELATION: Final = 1
_FAULT_UNASKED: Final = 2
_FAULT_GARBLED: Final = 3
_FAULT_MISSING: Final = 4
_PRINTABLE = range(0x20, 0x7F)
_TLS_ALERT: Final = b"\x15\x03"
"""Content type and the first byte of every version."""


class Limits(NamedTuple):
    """The settings that a connection may run into."""

    request_timeout_ms: int
    max_receive_bytes: int


def connection_trouble(where: str, event: Event, limits: Limits, was_preparing: bool) -> str | None:
    """Return why the connection to `where` ended, or None if that is not worth a word.

    Args:
        where: host:port of the broker.
        event: a DISCONNECTED event.
        limits: those in force.
        was_preparing: it had not answered ApiVersions yet.
    """
    reason, err, bad_size, timed_out = event.a, event.b, event.c, event.d
    if reason == CloseReason.NOT_CONNECTED:
        why = os.strerror(err) if err else "no route"
        return (
            f"connection to broker {where} could not be established: {why} (errno {err}): is a "
            f"broker listening there?"
        )
    if reason in (CloseReason.BAD_FRAME, CloseReason.FRAME_TOO_LARGE):
        return _bad_frame(where, bad_size, limits.max_receive_bytes)
    if reason == CloseReason.NO_MEMORY:
        return f"no memory for an answer of broker {where}: the connection was closed"
    if timed_out:
        return (
            f"broker {where} did not answer within request_timeout_ms = "
            f"{limits.request_timeout_ms:,}: the connection was closed"
        )
    if reason == CloseReason.REMOTE:
        how = f" ({os.strerror(err)})" if err else ""
        if was_preparing:
            return (
                f"{where} closed the connection before it answered ApiVersions{how}: is it a "
                f"Kafka broker, and its listener PLAINTEXT?"
            )
        return f"broker {where} closed the connection{how}"
    return None


def _bad_frame(where: str, size: int, limit: int) -> str:
    prefix = (size & 0xFFFFFFFF).to_bytes(4, "big")
    text = ""
    if all(byte in _PRINTABLE for byte in prefix):
        text = f" (the text {prefix.decode('ascii')!r})"
    hint = "it speaks another protocol" if text else "raise max_receive_bytes if that can be right"
    if prefix[:2] == _TLS_ALERT:
        text, hint = " (a TLS alert)", "this listener speaks TLS, and was spoken to in plain text"
    return (
        f"{where} announced an answer of {size:,} bytes{text}, which is not within "
        f"0..max_receive_bytes = {limit:,}: {hint}; the connection was closed"
    )


def protocol_trouble(where: str, event: Event) -> str:
    """Return what was wrong with an answer from `where` (a PROTOCOL_ERROR event)."""
    if event.a == _FAULT_CORRELATION:
        return (
            f"broker {where} answered with correlation id {event.c} where {event.b} was due: the "
            f"connection was closed, its requests are sent again"
        )
    if event.a == _FAULT_UNASKED:
        return f"broker {where} sent {event.b:,} bytes that nobody asked for: connection closed"
    if event.a == _FAULT_GARBLED:
        return (
            f"broker {where} sent a Produce answer of {event.b:,} bytes that does not parse: the "
            f"connection was closed, its requests are sent again"
        )
    return f"broker {where} left {event.b} partition(s) out of its Produce answer: sent again"


def answer_trouble(where: str, api_key: int, error: Exception) -> str:
    """Return what was wrong with an answer from `where` to a request of the control thread."""
    return f"broker {where} sent an answer to {API_NAMES[api_key]} that does not parse: {error}"
