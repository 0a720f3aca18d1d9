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

_OTHER_PROTOCOL: Final = {
    "PLAINTEXT": "SSL",
    "SSL": "PLAINTEXT",
    "SASL_PLAINTEXT": "SASL_SSL",
    "SASL_SSL": "SASL_PLAINTEXT",
}


_WITH_SASL: Final = {"PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SASL_SSL"}


class Limits(NamedTuple):
    """The settings that a connection may run into."""

    request_timeout_ms: int
    max_receive_bytes: int
    security_protocol: str = "PLAINTEXT"


def connection_reason(
    where: str,
    event: ControlEvent,
    limits: Limits,
    was_preparing: bool,
    sasl_step: str = "",
    *,
    may_want_sasl: bool = False,
) -> str | None:
    """Return why the connection to `where` ended, or None if nobody needs to know.

    Args:
        where: host:port of the broker.
        event: an ON_DISCONNECTED event.
        limits: those in force.
        was_preparing: it had not answered ApiVersions yet.
        sasl_step: what an authentication under way waited for; "": none was.
        may_want_sasl: there was none, and nothing but ApiVersions has ever been answered.
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
        if sasl_step:
            return _left_in_sasl(where, sasl_step, how)
        if was_preparing:
            return (
                f"{where} closed the connection before it answered ApiVersions{how}: is it a "
                f"Kafka broker, and its listener {limits.security_protocol}?"
            )
        if may_want_sasl:
            # A listener for SASL answers ApiVersions, and closes at any other request.
            ours = limits.security_protocol
            return (
                f"broker {where} closed the connection{how}, and has answered ApiVersions alone: "
                f"does its listener ask for SASL? security_protocol is {ours}; then set it to "
                f"{_WITH_SASL.get(ours, ours)}, and sasl_mechanism with what that needs"
            )
        return f"broker {where} closed the connection{how}"
    return None


def _left_in_sasl(where: str, step: str, how: str) -> str:
    hint = "is it a Kafka broker, and its listener of the security_protocol that is set?"
    if step == "SaslHandshake":
        hint = "is its listener one for SASL?"
    if step == "SaslAuthenticate":
        hint = "some brokers do so in place of an error: check user, password and mechanism"
    return (
        f"{where} closed the connection during authentication, before it answered {step}{how}: "
        f"{hint}"
    )


def setup_timeout_reason(
    where: str, after_ms: int, sasl_step: str, *, proxy: str = "", has_tls: bool = False
) -> str:
    """Return why a connection to `where` was given up that was not ready in time.

    Args:
        where: host:port of the broker.
        after_ms: the time that it had.
        sasl_step: what an authentication waited for; "": there was none yet.
        proxy: host:port of the proxy on the way; "": there is none.
        has_tls: whether it speaks TLS.
    """
    limit = f"{after_ms:,} ms (socket_connection_setup_timeout_ms)"
    if sasl_step:
        return (
            f"authentication with broker {where} did not end within {limit}: it waited for "
            f"{sasl_step}"
        )
    return not_taken_reason(where, limit, proxy=proxy, has_tls=has_tls)


def not_taken_reason(where: str, limit: str, *, proxy: str, has_tls: bool) -> str:
    """Return why there is no connection to `where`, if it is not known how far it came.

    Args:
        where: host:port of the broker.
        limit: the time that it had, in words.
        proxy: host:port of the proxy on the way; "": there is none.
        has_tls: whether it speaks TLS.
    """
    handshake = ", or no handshake of TLS ended," if has_tls else ""
    if proxy:
        return (
            f"proxy {proxy} did not connect to broker {where}{handshake} within {limit}: does "
            f"proxy_url name the right protocol, host and port, and can the proxy reach the broker?"
        )
    hint = ", or is its listener one without TLS" if has_tls else ""
    return (
        f"broker {where} did not take the connection{handshake} within {limit}: does a firewall "
        f"drop the packets{hint}?"
    )


def _bad_frame(where: str, size: int, limit: int) -> str:
    prefix = (size & 0xFFFFFFFF).to_bytes(4, "big")
    text = ""
    if all(byte in _PRINTABLE for byte in prefix):
        text = f" (the text {prefix.decode('ascii')!r})"
    hint = "it speaks another protocol"
    if not text and size >= 0:
        hint = "raise max_receive_bytes if that can be right"
    if prefix[:2] == _TLS_ALERT:
        text = " (a TLS alert)"
        hint = (
            "this listener speaks TLS, and was spoken to in plain text: set security_protocol to "
            "SSL or SASL_SSL, or take the port of another listener"
        )
    return (
        f"{where} announced an answer of {size:,} bytes{text}, which is not within "
        f"0..max_receive_bytes = {limit:,}: {hint}; the connection was closed"
    )


def answers_in_tls(event: ControlEvent) -> bool:
    """Whether a connection in plain text ended with a TLS alert (an ON_DISCONNECTED event)."""
    reasons = (CloseReason.CLOSE_BAD_FRAME, CloseReason.CLOSE_FRAME_TOO_LARGE)
    return event.reason in reasons and (event.bad_size & 0xFFFFFFFF) >> 16 == 0x1503


def other_protocol_reason(where: str, security_protocol: str) -> str:
    """Return what is wrong when a broker speaks TLS and we did not, or the reverse.

    Args:
        where: host:port of the broker.
        security_protocol: ours.
    """
    other = _OTHER_PROTOCOL[security_protocol]
    if security_protocol.endswith("SSL"):
        said = "does not speak TLS: it answers in plain text"
    else:
        said = "speaks TLS, and was spoken to in plain text"
    return (
        f"broker {where} {said}; security_protocol is {security_protocol}: set it to {other}, or "
        f"take the port of another listener"
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
