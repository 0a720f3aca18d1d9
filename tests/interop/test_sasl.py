"""Our SASL against Apache Kafka's: every mechanism, refusals, and sessions that are prolonged."""

from __future__ import annotations

import time
from typing import Any

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.client.connections.sasl_connections import SaslConnections
from fastprod.client.sasl import authentications
from fastprod.errors import AuthenticationError
from support.processes.scale import SCALE_PERCENT
from support.security import secured_kafka
from support.security.secured_kafka import PASSWORD, USER, Secured, unsecured_token

WAIT_S = 60.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOKEN_S = 5.0
LONG_TOKEN_S = 60.0
WRONG = "looking-glass"


def producer(secured: Secured, mechanism: str, **settings: Any) -> KafkaProducer:
    known: dict[str, Any] = {
        "bootstrap_servers": secured.kafka.bootstrap("CLEAR"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        known["sasl_oauth_token_provider"] = lambda: unsecured_token(LONG_TOKEN_S)
    else:
        known |= {"sasl_username": USER, "sasl_password": PASSWORD}
    return KafkaProducer(known | settings)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_lets_us_in(mechanism: str, secured: Secured, topic: TopicFactory) -> None:
    """P-G.10.1 to P-G.10.5"""
    name = topic(secured.kafka)
    with producer(secured, mechanism) as made:
        assert made.send(name, b"x").result(WAIT_S).offset == 0


@pytest.mark.parametrize("listener", ["PLAIN", "SCRAM", "TOKEN"])
def test_kafka_lets_us_in_over_tls(listener: str, secured: Secured, topic: TopicFactory) -> None:
    """SASL_SSL, with the settings as Kafka's own clients have them."""
    name = topic(secured.kafka)
    settings: dict[str, Any] = {**secured.client(listener)}
    if listener == "TOKEN":
        settings["sasl.oauth.token.provider"] = lambda: unsecured_token(LONG_TOKEN_S)
    with KafkaProducer(settings) as made:
        assert made.send(name, b"x").result(WAIT_S).offset == 0


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize("user", [USER, "nobody"])
def test_kafka_refuses_a_wrong_password_and_an_unknown_user(
    mechanism: str, user: str, secured: Secured, topic: TopicFactory
) -> None:
    """P-G.10.2, P-G.10.8, P-H.7.2"""
    name = topic(secured.kafka)
    refusal = pytest.raises(AuthenticationError)
    with (
        producer(secured, mechanism, sasl_username=user, sasl_password=WRONG) as made,
        refusal as caught,
    ):
        made.send(name, b"x").result(WAIT_S)
    text = str(caught.value)
    assert f"refused user {user!r} by {mechanism}: Authentication failed" in text
    assert secured.kafka.bootstrap("CLEAR") in text
    assert WRONG not in text


def test_kafka_refuses_a_token(secured: Secured, topic: TopicFactory) -> None:
    """P-G.10.5: it says why in JSON."""
    name = topic(secured.kafka)
    refusal = pytest.raises(AuthenticationError, match='"status":"invalid_token"')
    with (
        producer(secured, "OAUTHBEARER", sasl_oauth_token_provider=lambda: "abc") as made,
        refusal,
    ):
        made.send(name, b"x").result(WAIT_S)


def test_a_listener_of_kafka_without_sasl_says_so(secured: Secured, topic: TopicFactory) -> None:
    """P-G.10.2"""
    name = topic(secured.kafka)
    refusal = pytest.raises(AuthenticationError, match="takes no SASL on this listener")
    plain = secured.kafka.bootstrap_servers
    with producer(secured, "PLAIN", bootstrap_servers=plain) as made, refusal:
        made.send(name, b"x").result(WAIT_S)


# Sessions of 5 s, by their tokens or by Kafka's connections.max.reauth.ms.
PROLONGED: list[tuple[str, dict[str, Any]]] = [
    ("SCRAM-SHA-512", {}),
    ("OAUTHBEARER", {"sasl_oauth_token_provider": lambda: unsecured_token(TOKEN_S)}),
]


@pytest.fixture
def early_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are renewed with seconds to spare. In the full run, which has the computer for
    itself, with as much of them as a producer leaves."""
    if SCALE_PERCENT < 100:
        renew_after(monkeypatch, 0.25, 0.35)


def renew_after(monkeypatch: pytest.MonkeyPatch, earliest: float, latest: float) -> None:
    """Have the next sessions renewed between these parts of them."""
    monkeypatch.setattr(authentications, "_EARLIEST", earliest)
    monkeypatch.setattr(authentications, "_LATEST", latest)


def send_until_prolonged(made: KafkaProducer, name: str) -> None:
    """Busy, idle and busy again, three sessions each; each record has the next offset."""
    sent = 0
    for until, pause_s in ((3, 0.001), (6, 1.0), (9, 0.001)):
        deadline_s = time.monotonic() + WAIT_S
        while made.metrics()["producer-metrics"]["successful-reauthentication-total"] < until:
            assert made.send(name, b"x").result(WAIT_S).offset == sent
            sent += 1
            assert time.monotonic() < deadline_s
            time.sleep(pause_s)
    metrics = made.metrics()["producer-metrics"]
    assert metrics["failed-reauthentication-total"] == 0
    assert metrics["record-retry-total"] == 0


@pytest.mark.usefixtures("early_renewals")
@pytest.mark.parametrize(("mechanism", "settings"), PROLONGED, ids=["SCRAM", "OAUTHBEARER"])
def test_sessions_are_prolonged_busy_and_idle(
    mechanism: str, settings: dict[str, Any], secured: Secured, topic: TopicFactory
) -> None:
    """P-G.10.7, KIP-368: on a second connection, which takes the place of the first one; with no
    record lost or retried."""
    with producer(secured, mechanism, **settings) as made:
        send_until_prolonged(made, topic(secured.kafka))
        metrics = made.metrics()["producer-metrics"]
        assert metrics["connection-creation-total"] >= 9


@pytest.mark.usefixtures("early_renewals")
@pytest.mark.parametrize(("mechanism", "settings"), PROLONGED, ids=["SCRAM", "OAUTHBEARER"])
def test_sessions_are_prolonged_where_there_can_be_no_other_connection(
    mechanism: str,
    settings: dict[str, Any],
    secured: Secured,
    topic: TopicFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-G.10.7, KIP-368: the handshake and the first token in one go, as Kafka's brokers take it;
    on the same connections, with no record lost or retried."""
    monkeypatch.setattr(SaslConnections, "open_spare", lambda self, slot: None)
    with producer(secured, mechanism, **settings) as made:
        send_until_prolonged(made, topic(secured.kafka))
        assert made.metrics()["producer-metrics"]["connection-creation-total"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("early_renewals")
@pytest.mark.parametrize(("mechanism", "settings"), PROLONGED, ids=["SCRAM", "OAUTHBEARER"])
def test_sessions_are_prolonged_at_full_speed(
    mechanism: str, settings: dict[str, Any], secured: Secured, topic: TopicFactory
) -> None:
    """P-G.10.7, P-F.5: Kafka closes no connection for a session that has ended, however many
    requests wait for their answers."""
    name = topic(secured.kafka)
    with producer(secured, mechanism, **settings) as made:
        count = 0
        deadline_s = time.monotonic() + WAIT_S
        while made.metrics()["producer-metrics"]["successful-reauthentication-total"] < 6:
            made.send_many(name, [b"%d" % count] * 1_000)
            count += 1_000
            assert time.monotonic() < deadline_s
        assert made.send(name, b"last").result(WAIT_S).offset == count
        metrics = made.metrics()["producer-metrics"]
        assert metrics["failed-reauthentication-total"] == 0
        assert metrics["record-retry-total"] == 0


def test_a_password_that_changes_costs_no_record(
    secured: Secured, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the broker and by `set_sasl_credentials`, while records are sent."""
    name = topic(secured.kafka)
    secured_kafka.set_password(secured.kafka, "bob", "first")
    renew_after(monkeypatch, 0.8, 0.8)  # not between the two changes
    with producer(
        secured, "SCRAM-SHA-512", sasl_username="bob", sasl_password="first", linger_ms=0
    ) as made:
        futures = [made.send(name, b"before")]
        futures[0].result(WAIT_S)  # all connections are there, which need the first password
        secured_kafka.set_password(secured.kafka, "bob", "second")
        made.set_sasl_credentials("bob", "second")
        renew_after(monkeypatch, 0.25, 0.35)
        metrics = made.metrics()["producer-metrics"]
        until = metrics["successful-reauthentication-total"] + 3
        deadline_s = time.monotonic() + WAIT_S
        while made.metrics()["producer-metrics"]["successful-reauthentication-total"] < until:
            futures.append(made.send(name, b"x"))
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert [each.result(WAIT_S).offset for each in futures] == list(range(len(futures)))
        assert made.metrics()["producer-metrics"]["failed-reauthentication-total"] == 0
