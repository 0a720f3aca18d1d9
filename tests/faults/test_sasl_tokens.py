"""OAUTHBEARER to a scripted peer: tokens that are renewed, refused, or cannot be had."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.client.sasl.login import Login
from fastprod.errors import AuthenticationError, MetadataTimeoutError
from fastprod.protocol.api_keys import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from support.engine.quick_producer import WAIT_S
from support.peer.fixtures import PeerFactory
from support.peer.journal import Request
from support.peer.script import Message
from support.peer.scripted_peer import Peer
from support.security.sasl_script import (
    accepted,
    offer_sasl,
    refused,
    sasl_peer,
    sasl_producer,
)

SASL = (SASL_HANDSHAKE, SASL_AUTHENTICATE)


def test_tokens_are_renewed_in_the_background(new_peer: PeerFactory) -> None:
    """P-G.10.5, P-G.10.7: a callback of confluent-kafka's form; every authentication has a token
    that is good for longer than the session it prolongs."""
    peer = sasl_peer(new_peer)
    ends: dict[bytes, float] = {}
    made: list[float] = []

    def token() -> tuple[str, float]:
        made.append(time.time())
        name = f"token{len(made)}"
        ends[name.encode()] = made[-1] + 2.0
        return name, ends[name.encode()]

    def answer(request: Request) -> Message:
        name = bytes(request.message.auth_bytes).split(b"\x01")[1].removeprefix(b"auth=Bearer ")
        left_ms = int((ends[name] - time.time()) * 1000)
        if left_ms <= 0:
            return refused(request.version, "expired")
        return accepted(request.version, left_ms)

    offer_sasl(peer, "OAUTHBEARER")
    peer.on(SASL_AUTHENTICATE).reply(answer).always()
    with oauth_producer(peer, token, linger_ms=0) as producer:
        end_s = time.monotonic() + 5
        count = 0
        # A busy machine may renew a session or two where they are.
        while time.monotonic() < end_s or len(peer.connections) <= 2:
            assert time.monotonic() < end_s + WAIT_S, "no session has a connection of its own"
            assert producer.send("t", b"x").result(WAIT_S).offset == count
            count += 1
            time.sleep(0.02 if time.monotonic() < end_s - 4 else 0.7)
        metrics = producer.metrics()["producer-metrics"]
        assert metrics["failed-reauthentication-total"] == 0
        assert metrics["failed-authentication-total"] == 0
        assert metrics["successful-reauthentication-total"] >= 3
    assert 3 <= len(made) <= 3 + (time.time() - made[0]) / 1.5, "one every 1.6 s, and two to spare"


def oauth_producer(peer: Peer, callback: Any, **config: Any) -> KafkaProducer:
    return sasl_producer(peer, "OAUTHBEARER", sasl_oauth_token_provider=callback, **config)


async def async_token() -> str:
    await asyncio.sleep(0)
    return "abc"


def test_a_token_by_a_coroutine(new_peer: PeerFactory) -> None:
    """P-G.10.5"""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "OAUTHBEARER")
    with oauth_producer(peer, async_token) as producer:
        assert producer.send("t", b"x").result(WAIT_S).offset == 0
    token = bytes(peer.requests(SASL_AUTHENTICATE)[0].message.auth_bytes)
    assert token == b"n,,\x01auth=Bearer abc\x01\x01"


def raises() -> str:
    raise RuntimeError("hush")


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (raises, "the token callback raises raised RuntimeError"),
        (lambda: ("abc", time.time() - 60), "has expired 60 s ago"),
        (lambda: None, "NoneType where a token is due"),
        (lambda: "two words", "characters that no token may have"),
    ],
)
def test_a_token_that_cannot_be_had_is_told_at_once(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture, callback: Any, words: str
) -> None:
    """P-G.10.5, P-G.10.8, P-H.7.2: with the broker's address, and without a storm."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "OAUTHBEARER")
    began_s = time.monotonic()
    with oauth_producer(peer, callback) as producer:
        with pytest.raises(AuthenticationError, match=words) as caught:
            producer.send("t", b"x").result(WAIT_S)
        assert f"broker {peer.bootstrap_servers}: no access token" in str(caught.value)
        assert "hush" not in str(caught.value) + caplog.text
        while time.monotonic() - began_s < 3:
            time.sleep(0.05)
        assert len(peer.connections) <= 2 + (time.monotonic() - began_s) / 0.8, "five in 3 s"
    assert peer.requests(SASL_HANDSHAKE) == []


def test_a_refused_token_is_told_with_the_brokers_words(new_peer: PeerFactory) -> None:
    """P-G.10.5: the broker's JSON is acknowledged by one byte, and the next token is a new one."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "OAUTHBEARER")
    tokens = iter(range(1, 1000))

    def answer(request: Request) -> Message:
        if bytes(request.message.auth_bytes) == b"\x01":
            return refused(request.version, "Authentication failed")
        return accepted(request.version, token=b'{"status":"invalid_token"}')

    peer.on(SASL_AUTHENTICATE).reply(answer).always()
    with oauth_producer(peer, lambda: f"token{next(tokens)}") as producer:
        with pytest.raises(AuthenticationError) as caught:
            producer.partitions_for("t")
        assert '{"status":"invalid_token"}' in str(caught.value)
        assert "token1" not in str(caught.value)
        deadline_s = time.monotonic() + WAIT_S
        while len(peer.connections) < 2 or len(peer.requests(SASL_AUTHENTICATE)) < 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    sent = [bytes(each.message.auth_bytes) for each in peer.requests(SASL_AUTHENTICATE)]
    assert b"token1" in sent[0]
    assert b"token2" in sent[2]


def test_the_login_ends_with_the_producer(
    new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a callback hangs, whose name is what callers hear of (P-A.4.5)."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "OAUTHBEARER")
    gate = threading.Event()

    def token() -> str:
        gate.wait(WAIT_S)
        return "abc"

    producer = oauth_producer(peer, token, max_block_ms=100)
    awaited = r"access token from the token callback .*<locals>\.token is still awaited"
    with pytest.raises(MetadataTimeoutError, match=awaited) as told:
        producer.partitions_for("t")
    assert "after 100 ms" in str(told.value)
    with pytest.raises(MetadataTimeoutError, match=awaited):
        producer.send("t", b"x").result(WAIT_S)
    deadlines_s: list[float | None] = []
    close = Login.close

    def noted(login: Login, deadline_s: float | None = None) -> None:
        deadlines_s.append(deadline_s)
        close(login, deadline_s)

    monkeypatch.setattr(Login, "close", noted)
    began_s = time.monotonic()
    producer.close(0)
    (deadline_s,) = deadlines_s
    assert deadline_s is not None
    assert began_s <= deadline_s <= time.monotonic(), "P-A.9: it does not wait for the callback"
    gate.set()
    deadline_s = time.monotonic() + WAIT_S
    while any(each.name.startswith("kafka-login") for each in threading.enumerate()):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@contextmanager
def busy_endpoint(refusals: float) -> Iterator[str]:
    """The URL of a token endpoint that answers HTTP 503 so many times."""
    numbers = itertools.count()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(503 if next(numbers) < refusals else 200)
            self.end_headers()
            self.wfile.write(b'{"access_token": "abc", "expires_in": 60}')

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join(WAIT_S)


def endpoint_producer(peer: Peer, url: str, **config: Any) -> KafkaProducer:
    given = {
        "sasl_oauthbearer_token_endpoint_url": url,
        "sasl_oauthbearer_client_credentials_client_id": "me",
        "sasl_oauthbearer_client_credentials_client_secret": "hush",
    }
    return sasl_producer(peer, "OAUTHBEARER", **given, **config)


def test_a_first_token_is_tried_for_while_its_endpoint_is_busy(new_peer: PeerFactory) -> None:
    """P-G.10.5: as long as Kafka's client does; what cannot be reached is told after 0.6 s."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "OAUTHBEARER")
    peer.on(SASL_AUTHENTICATE).reply(lambda request: accepted(request.version, 0)).always()
    with busy_endpoint(4) as url, endpoint_producer(peer, url) as producer:
        assert producer.send("t", b"x").result(WAIT_S).offset == 0


def test_who_waits_for_a_busy_endpoint_for_too_long_hears_what_it_answered(
    new_peer: PeerFactory,
) -> None:
    """P-G.10.8: without the secret."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "OAUTHBEARER")
    answered = "there is no access token yet: the token endpoint http.*/token answered HTTP 503"
    with (
        busy_endpoint(float("inf")) as url,
        endpoint_producer(peer, url, max_block_ms=2_000) as producer,
        pytest.raises(MetadataTimeoutError, match=answered) as told,
    ):
        producer.partitions_for("t")
    assert "hush" not in str(told.value)
