"""Faults of SaslHandshake and SaslAuthenticate, over sockets (B-G2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from fastprod.broker import Broker
from fastprod.broker.faults.hooks import Park
from fastprod.broker.faults.planned_faults import InterceptedRequest
from fastprod.error_codes import SASL_AUTHENTICATION_FAILED, UNKNOWN_SERVER_ERROR
from fastprod.protocol.messages.metadata import MetadataRequest
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from support.broker.sasl_client import (
    ALICE,
    AUTHENTICATE,
    HANDSHAKE,
    PLAIN,
    USERS,
    SaslClient,
    body_of,
    payload,
)
from support.broker.sockets import until

TOKEN = SaslAuthenticateRequest(auth_bytes=ALICE)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(sasl_users=USERS, connection_failed_authentication_delay_ms=0) as made:
        yield made


def connect(broker: Broker) -> SaslClient:
    return SaslClient(broker.nodes[0].port)


@pytest.mark.parametrize("api", ["SaslHandshake", "SaslAuthenticate"])
def test_an_error_is_answered_and_ends_the_connection(broker: Broker, api: str) -> None:
    """B-G2."""
    broker.faults.fail(api, "SASL_AUTHENTICATION_FAILED")
    with connect(broker) as client:
        answer = client.ask(HANDSHAKE, 1, PLAIN)
        if api == "SaslAuthenticate":
            assert answer.error_code == 0
            answer = client.ask(AUTHENTICATE, 1, TOKEN)
            assert answer.error_message == "a fault that was asked for"
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        assert client.is_ended()
    with connect(broker) as client:
        assert client.authenticate().error_code == 0


def test_an_exchange_is_dropped_closed_and_lost(broker: Broker) -> None:
    """B-G2."""
    faults = broker.faults
    faults.drop("SaslHandshake")
    with connect(broker) as client:
        client.say(payload(HANDSHAKE, 1, PLAIN))
        assert client.is_silent()
    for verb in (faults.close, faults.lose_reply):
        verb("SaslAuthenticate")
        with connect(broker) as client:
            assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
            client.say(payload(AUTHENTICATE, 1, TOKEN))
            assert client.is_ended()


def test_an_answer_comes_late(broker: Broker) -> None:
    """B-G2: and the exchange goes on as if nothing had been."""
    broker.faults.delay("SaslAuthenticate", 3_600_000)
    with connect(broker) as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.say(payload(AUTHENTICATE, 1, TOKEN))
        assert client.is_silent()
        broker.faults.reset()
        assert body_of(AUTHENTICATE, 1, client.hear()).error_code == 0
        assert client.ask(3, 5, MetadataRequest(topics=[])).topics == []


def test_a_refusal_comes_late(broker: Broker) -> None:
    """B-G2."""
    broker.faults.delay("SaslAuthenticate", 3_600_000)
    with connect(broker) as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.say(payload(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=b"\0alice\0no")))
        assert client.is_silent()
        broker.faults.reset()
        answer = body_of(AUTHENTICATE, 1, client.hear())
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        assert client.is_ended()


@pytest.mark.parametrize("key", [HANDSHAKE, AUTHENTICATE])
def test_an_answer_makes_no_sense(broker: Broker, key: int) -> None:
    """B-G2: its size and its correlation id are right."""
    with connect(broker) as client:
        right = _answers(client)[key]
    broker.faults.garble(key)
    with connect(broker) as client:
        wrong = _answers(client)[key]
    assert (len(wrong), wrong[:4]) == (len(right), right[:4])
    assert bytes(each ^ 0xFF for each in wrong[4:]) == right[4:]


def test_a_bare_token_meets_faults_too(broker: Broker) -> None:
    """B-G2, KIP-43: what has no form for an error ends the connection."""
    broker.faults.fail("SaslAuthenticate", "REQUEST_TIMED_OUT")
    with connect(broker) as client:
        assert client.ask(HANDSHAKE, 0, PLAIN).error_code == 0
        client.say(ALICE)
        assert client.is_ended()


def test_an_interceptor_holds_an_exchange_back(broker: Broker) -> None:
    """B-G2, B-F3: it goes on in the thread that releases it."""
    park = Park()
    seen: list[InterceptedRequest] = []

    def intercept(request: InterceptedRequest) -> Park | None:
        seen.append(request)
        return park if request.api == "SaslAuthenticate" else None

    broker.faults.intercept(intercept)
    with connect(broker) as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        client.say(payload(AUTHENTICATE, 1, TOKEN))
        until(lambda: len(seen) == 2)
        assert client.is_silent()
        park.release()
        assert body_of(AUTHENTICATE, 1, client.hear()).error_code == 0
    assert seen[0].message.mechanism == "PLAIN"


def test_an_interceptor_that_fails_refuses(broker: Broker) -> None:
    """B-F3."""

    def intercept(request: InterceptedRequest) -> None:
        raise RuntimeError("on purpose")

    broker.faults.intercept(intercept)
    with connect(broker) as client:
        assert client.ask(HANDSHAKE, 1, PLAIN).error_code == UNKNOWN_SERVER_ERROR
        assert client.is_ended()


def test_the_log_of_requests_has_no_token(broker: Broker) -> None:
    """B-G2."""
    with connect(broker) as client:
        assert client.authenticate().error_code == 0
    handshake, token = broker.requests()
    assert (handshake.api, handshake.message.mechanism) == ("SaslHandshake", "PLAIN")
    assert (token.api, token.message) == ("SaslAuthenticate", None)
    assert broker.requests("SaslAuthenticate") == [token]


def _answers(client: SaslClient) -> dict[int, bytes]:
    found = {}
    for key, message in ((HANDSHAKE, PLAIN), (AUTHENTICATE, TOKEN)):
        client.say(payload(key, 1, message))
        found[key] = client.hear()
        assert struct.unpack_from(">i", found[key]) == (5,)
    return found
