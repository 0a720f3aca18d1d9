"""SASL to a scripted peer: what is sent when, and brokers that misbehave in the middle of it."""

from __future__ import annotations

import time

import pytest

from fastprod import KafkaProducer
from fastprod.client.connections.sasl_connections import SaslConnections
from fastprod.errors import AuthenticationError, MetadataTimeoutError
from fastprod.protocol.api_keys import (
    API_NAMES,
    API_VERSIONS,
    METADATA,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from fastprod.security.scram import ScramServer, make_credentials
from support.engine.quick_producer import WAIT_S, wait_for_failure
from support.peer.fixtures import PeerFactory
from support.peer.journal import Request
from support.peer.script import Message
from support.peer.scripted_peer import Peer
from support.security.sasl_script import (
    accepted,
    asked,
    offer_sasl,
    refused,
    sasl_peer,
    sasl_producer,
)

SASL = (SASL_HANDSHAKE, SASL_AUTHENTICATE)
LEADER = 2
"""The second connection: the first one is to the bootstrap address."""


def failed_renewals(producer: KafkaProducer) -> float:
    return float(producer.metrics()["producer-metrics"]["failed-reauthentication-total"])


def test_what_is_sent_before_anything_else(new_peer: PeerFactory) -> None:
    """P-G.10.1: versions, mechanism, token; then the client's own ApiVersions."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN")
    with sasl_producer(peer) as producer:
        assert producer.send("t", b"x").result(WAIT_S).offset == 0
    for connection in (1, 2):
        assert asked(peer, connection)[:4] == [
            ("ApiVersions", 0),
            ("SaslHandshake", 1),
            ("SaslAuthenticate", 2),
            ("ApiVersions", 4),
        ]
    token = peer.requests(SASL_AUTHENTICATE)[0].message.auth_bytes
    assert bytes(token) == b"\0ada\0hush"


@pytest.mark.parametrize("api", [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE])
def test_a_connection_that_ends_during_authentication_is_tried_again(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture, api: int
) -> None:
    """P-G.10.2, P-G.7.8: it is no refusal, and the reason says where it happened."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN")
    rule = peer.on(api).close().always()
    with sasl_producer(peer, max_block_ms=200) as producer:
        wait_for_failure(producer)
        with pytest.raises(MetadataTimeoutError) as caught:
            producer.partitions_for("t")
        where = f"{peer.bootstrap_servers} closed the connection during authentication"
        assert f"{where}, before it answered {API_NAMES[api]}" in str(caught.value)
        peer.wait_until(lambda: where in caplog.text)
        rule.cancel()
        producer.warmup("t", timeout=WAIT_S)
    assert "hush" not in caplog.text


def test_a_broker_that_does_not_answer_is_left_in_time(new_peer: PeerFactory) -> None:
    """P-G.4.4: SASL is part of the set-up, and its time-out says what was waited for."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN")
    rule = peer.on(SASL_AUTHENTICATE).silence().always()
    with sasl_producer(peer, max_block_ms=200, socket_connection_setup_timeout_ms=150) as producer:
        rule.wait_for_hits(2)  # what became of the first one is known
        text, ends_s = "", time.monotonic() + WAIT_S
        # The latest attempt is told, which on a busy machine may not have come as far.
        while "SaslAuthenticate" not in text and time.monotonic() < ends_s:
            with pytest.raises(MetadataTimeoutError) as caught:
                producer.partitions_for("t")
            text = str(caught.value)
        assert f"authentication with broker {peer.bootstrap_servers} did not end within" in text
        assert "(socket_connection_setup_timeout_ms): it waited for SaslAuthenticate" in text
        rule.cancel()
        producer.warmup("t", timeout=WAIT_S)


@pytest.mark.parametrize(("api", "kept"), [(SASL_HANDSHAKE, 9), (SASL_AUTHENTICATE, 10)])
def test_an_answer_that_is_cut_short_ends_the_connection(
    new_peer: PeerFactory, api: int, kept: int
) -> None:
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN")
    frame = (kept - 4).to_bytes(4, "big")
    rule = peer.on(api).reply(
        lambda request: frame + request.correlation_id.to_bytes(4, "big") + bytes(kept - 8)
    )
    with sasl_producer(peer, request_timeout_ms=5_000) as producer:
        assert producer.send("t", b"x").result(WAIT_S).offset == 0
    assert rule.hits == 1


def test_a_broker_that_sends_the_password_back_does_not_get_it_into_an_error(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """P-G.10.8"""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN")
    peer.on(SASL_AUTHENTICATE).reply(lambda request: refused(request.version, "not hush!")).always()
    refusal = pytest.raises(AuthenticationError, match=r"not \[hidden\]!")
    with sasl_producer(peer) as producer, refusal as caught:
        producer.partitions_for("t")
    assert "hush" not in str(caught.value) + caplog.text


class ScramPeer:
    """The server's side of SCRAM, one exchange a connection; `credentials` are what it knows."""

    def __init__(self, mechanism: str, password: str) -> None:
        self.mechanism = mechanism
        self.credentials = make_credentials(mechanism, password)
        self.servers: dict[int, ScramServer] = {}

    def __call__(self, request: Request) -> Message:
        token = bytes(request.message.auth_bytes)
        server = self.servers.pop(request.connection, None)
        if server is not None:
            return accepted(request.version, token=server.final(token))
        server = self.servers[request.connection] = ScramServer(self.mechanism)
        server.read_first(token)
        return accepted(request.version, token=server.first(self.credentials))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(new_peer: PeerFactory, mechanism: str) -> None:
    """P-G.10.4"""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, mechanism)
    peer.on(SASL_AUTHENTICATE).reply(ScramPeer(mechanism, "hush")).always()
    with sasl_producer(peer, mechanism) as producer:
        assert producer.send("t", b"x").result(WAIT_S).offset == 0
    assert not any(b"hush" in bytes(each.message.auth_bytes) for each in peer.requests(36))


def test_a_server_that_does_not_know_the_password_is_not_trusted(new_peer: PeerFactory) -> None:
    """P-G.10.4: it may say that all is well."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "SCRAM-SHA-256")
    pretender = ScramPeer("SCRAM-SHA-256", "guess")

    def answer(request: Request) -> Message:
        token = bytes(request.message.auth_bytes)
        if token.startswith(b"c="):
            return accepted(
                request.version, token=b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
            )
        return pretender(request)

    peer.on(SASL_AUTHENTICATE).reply(answer).always()
    refusal = pytest.raises(AuthenticationError, match="did not prove that it knows")
    with sasl_producer(peer, "SCRAM-SHA-256") as producer, refusal:
        producer.partitions_for("t")
    assert peer.requests(METADATA) == []


# Sessions that are prolonged on their connection: there can be no other one. Else see
# test_sasl_renewal.py.


def spans(peer: Peer, connection: int) -> list[list[int]]:
    """The requests of a connection, cut at each handshake."""
    found: list[list[int]] = [[]]
    for each in peer.requests():
        if each.connection == connection:
            if each.api_key == SASL_HANDSHAKE:
                found.append([])
            found[-1].append(each.api_key)
    return found


def test_nothing_else_is_sent_while_a_session_is_prolonged(new_peer: PeerFactory) -> None:
    """P-G.10.7: handshake and token in one go; records wait for the last answer, and no longer."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=3_000)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"first").result(WAIT_S)
        peer.refuse_connections()
        again = (
            peer.on(SASL_AUTHENTICATE).reply(lambda request: accepted(request.version, 0)).hold()
        )
        again.always()
        leader = peer.requests(PRODUCE)[0].connection
        # A busy machine may renew it once before the answers are held.
        peer.wait_until(lambda: leader in {each.connection for each in peer.held})
        sent_before = len(peer.requests(PRODUCE))
        futures = [producer.send("t", b"%d" % number) for number in range(20)]
        time.sleep(0.1)
        assert len(peer.requests(PRODUCE)) == sent_before
        assert not any(each.done() for each in futures)
        again.cancel()
        peer.release()
        assert [each.result(WAIT_S).offset for each in futures] == list(range(1, 21))
    for span in spans(peer, leader)[1:]:
        assert span[:2] == [SASL_HANDSHAKE, SASL_AUTHENTICATE]
    assert len(peer.connections) == 2


def test_records_go_on_without_the_control_thread(
    new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The I/O thread knows by which answer this broker accepts us, and ends the hold by itself."""
    hold = SaslConnections.hold
    monkeypatch.setattr(
        SaslConnections,
        "hold",
        lambda self, slot, is_held: hold(self, slot, is_held) if is_held else None,
    )
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=3_000)
    with sasl_producer(peer, linger_ms=0) as producer:
        sent = 1
        producer.send("t", b"x").result(WAIT_S)
        peer.refuse_connections()
        while producer.metrics()["producer-metrics"]["successful-reauthentication-total"] < 4:
            assert producer.send("t", b"x").result(WAIT_S).offset == sent
            sent += 1
    assert len(peer.connections) == 2


def test_what_is_in_flight_is_answered_while_a_session_is_prolonged(new_peer: PeerFactory) -> None:
    """P-G.10.7: answers of earlier requests come before those of the exchange."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=3_000)
    with sasl_producer(peer, linger_ms=0, max_in_flight_requests_per_connection=3) as producer:
        producer.send("t", b"first").result(WAIT_S)
        peer.refuse_connections()
        peer.on(PRODUCE).delay(0.1).always()
        futures = []
        while producer.metrics()["producer-metrics"]["successful-reauthentication-total"] < 2:
            futures.append(producer.send("t", b"x"))
            time.sleep(0.02)
        assert [each.result(WAIT_S).offset for each in futures] == list(range(1, len(futures) + 1))
        assert failed_renewals(producer) == 0
    assert len(peer.connections) == 2


def test_a_refusal_in_the_middle_costs_no_record(new_peer: PeerFactory) -> None:
    """P-G.10.7: the connection ends, and records go again on a new one."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=3_000)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"first").result(WAIT_S)
        peer.refuse_connections()
        refusal = peer.on(SASL_AUTHENTICATE).on_connection(LEADER)
        refusal.reply(lambda request: refused(request.version, "no")).wait_for_hits(1)
        peer.wait_until(lambda: failed_renewals(producer) == 1, WAIT_S, "the refusal")
        peer.accept_connections()
        offsets = [producer.send("t", b"%d" % number).result(WAIT_S).offset for number in range(5)]
        assert offsets == [1, 2, 3, 4, 5]
    assert peer.requests(PRODUCE)[-1].connection > LEADER
