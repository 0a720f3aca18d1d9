"""Why a connection failed, in words that a user can act on."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from fastprod._core.engine.control_queue import ControlEvent, ProtocolFault
from fastprod._core.io.channel import CloseReason
from fastprod.protocol.api_keys import API_NAMES

_PRINTABLE = range(0x20, 0x7F)
_TLS_ALERT: Final = b"\x15\x03"
"""Content type and the first byte of every version."""


class Limits(NamedTuple):
    """The settings that a connection may run into."""

    request_timeout_ms: int
    max_receive_bytes: int


def connection_reason(
    where: str, event: ControlEvent, limits: Limits, was_preparing: bool
) -> str | None:
    """Return why the connection to `where` ended, or None if nobody needs to know.

    Args:
        where: host:port of the broker.
        event: an ON_DISCONNECTED event.
        limits: those in force.
        was_preparing: it had not answered ApiVersions yet.
    """
    reason, err = event.reason, event.err
    if reason == CloseReason.CLOSE_NOT_CONNECTED:
        why = os.strerror(err) if err else "no route"
        return (
            f"connection to broker {where} could not be established: {why} (errno {err}): is a "
            f"broker listening there?"
        )
    if reason in (CloseReason.CLOSE_BAD_FRAME, CloseReason.CLOSE_FRAME_TOO_LARGE):
        return _bad_frame(where, event.bad_size, limits.max_receive_bytes)
    if reason == CloseReason.CLOSE_NO_MEMORY:
        return f"no memory for an answer of broker {where}: the connection was closed"
    if event.timed_out:
        return (
            f"broker {where} did not answer within request_timeout_ms = "
            f"{limits.request_timeout_ms:,}: the connection was closed"
        )
    if reason == CloseReason.CLOSE_REMOTE:
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
    hint = "it speaks another protocol"
    if not text and size >= 0:
        hint = "raise max_receive_bytes if that can be right"
    if prefix[:2] == _TLS_ALERT:
        text, hint = " (a TLS alert)", "this listener speaks TLS, and was spoken to in plain text"
    return (
        f"{where} announced an answer of {size:,} bytes{text}, which is not within "
        f"0..max_receive_bytes = {limit:,}: {hint}; the connection was closed"
    )


def protocol_reason(where: str, event: ControlEvent) -> str:
    """Return what was wrong with an answer from `where` (an ON_PROTOCOL_ERROR event)."""
    if event.fault == ProtocolFault.FAULT_CORRELATION:
        return (
            f"broker {where} answered with correlation id {event.got} where {event.expected} was "
            f"due: the connection was closed, its requests are sent again"
        )
    if event.fault == ProtocolFault.FAULT_UNASKED:
        return (
            f"broker {where} sent {event.bad_size:,} bytes that nobody asked for: connection closed"
        )
    if event.fault == ProtocolFault.FAULT_GARBLED:
        return (
            f"broker {where} sent a Produce answer of {event.bad_size:,} bytes that does not "
            f"parse: the connection was closed, its requests are sent again"
        )
    return (
        f"broker {where} left {event.item_count} partition(s) out of its Produce answer: sent again"
    )


def answer_reason(where: str, api_key: int, error: Exception) -> str:
    """Return what was wrong with an answer from `where` to a request of the control thread."""
    return f"broker {where} sent an answer to {API_NAMES[api_key]} that does not parse: {error}"
