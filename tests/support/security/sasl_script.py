"""A scripted peer that asks for SASL."""

from __future__ import annotations

from typing import Any, Final

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import API_NAMES, SASL_AUTHENTICATE, SASL_HANDSHAKE
from support.engine.quick_producer import quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.peer_options import Versions
from support.peer.script import Message
from support.peer.scripted_peer import Peer

SASL_VERSIONS: Final[Versions] = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
"""What a `Peer` is made with, so that it reads these requests."""


def offer_sasl(peer: Peer, *mechanisms: str, lifetime_ms: int = 0) -> None:
    """Take every handshake with one of these mechanisms, and every token."""
    peer.on(SASL_HANDSHAKE).reply(
        lambda request: {
            "error_code": 0 if request.message.mechanism in mechanisms else 33,
            "mechanisms": mechanisms,
        }
    ).always()
    peer.on(SASL_AUTHENTICATE).reply(
        lambda request: accepted(request.version, lifetime_ms)
    ).always()


def accepted(version: int, lifetime_ms: int = 0, token: bytes = b"") -> Message:
    """An answer to SaslAuthenticate that takes the token."""
    return _answer(version, lifetime_ms, {"error_code": 0, "error_message": None}, token)


def refused(version: int, text: str | None, error_code: int = 58) -> Message:
    """One that does not."""
    return _answer(version, 0, {"error_code": error_code, "error_message": text}, b"")


def _answer(version: int, lifetime_ms: int, fields: Message, token: bytes) -> Message:
    fields = {**fields, "auth_bytes": token}
    return fields | ({"session_lifetime": lifetime_ms} if version >= 1 else {})


def sasl_peer(new_peer: PeerFactory, **words: Any) -> Peer:
    """A broker with the topic t that speaks SASL."""
    return new_peer({"t": 1}, versions=SASL_VERSIONS, **words)


def sasl_producer(peer: Peer, mechanism: str = "PLAIN", **config: Any) -> KafkaProducer:
    """Ada's producer."""
    words = {"sasl_mechanism": mechanism, "security_protocol": "SASL_PLAINTEXT"}
    if mechanism != "OAUTHBEARER":
        words |= {"sasl_username": "ada", "sasl_password": "hush"}
    return quick_producer(peer, **words | config)


def asked(peer: Peer, connection: int = 1) -> list[tuple[str, int]]:
    """Name and version of every request on a connection."""
    return [
        (API_NAMES[each.api_key], each.version)
        for each in peer.requests()
        if each.connection == connection
    ]
