"""Sixteen mistakes in a producer's security settings, each told at once by an error of its own.

Apache Kafka is the peer. A relay in front of it counts the connections: nobody storms a server that
refuses him.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import AuthenticationError, KafkaError
from kafka_cluster import KafkaCluster
from support.broker.world import wait_for
from support.processes.scale import SCALE_PERCENT
from support.security import secured_kafka
from support.security.authority import CertificateAuthority, Identity
from support.security.counting_relay import CountingRelay
from support.security.secured_kafka import FAULTY, LISTENERS, PASSWORD, USER, Secured

# Far below max.block.ms; how long it takes is looked at in the full run, which has the computer
# for itself.
TOLD_WITHIN_S = 1.0 if SCALE_PERCENT >= 100 else 20.0
COUNTED_S = 3.0
MOST_CONNECTIONS = 5
WRONG = "looking-glass"

Settings = dict[str, Any]


@dataclass(frozen=True)
class World:
    """Kafka with good and bad listeners, its authority, and one that nobody trusts."""

    secured: Secured
    stranger: CertificateAuthority

    def client(self, listener: str, **changes: Any) -> Settings:
        settings: Settings = self.secured.client(listener) if listener in LISTENERS else {}
        if listener not in LISTENERS:
            settings = {
                "bootstrap.servers": self.secured.kafka.bootstrap(listener),
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.secured.authority.certificate),
            }
        for name, value in changes.items():
            if value is None:
                settings.pop(name.replace("_", "."), None)
            else:
                settings[name.replace("_", ".")] = value
        return settings

    def own_certificate(self) -> Identity:
        return self.stranger.issue("stranger's client")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    authority = CertificateAuthority(tmp_path_factory.mktemp("authority"))
    settings = {
        **secured_kafka.listener_settings(authority),
        **secured_kafka.faulty_settings(authority),
    }
    with KafkaCluster(1, settings, listeners={**LISTENERS, **FAULTY}) as kafka:
        secured = secured_kafka.secure(kafka, authority)
        yield World(secured, CertificateAuthority(tmp_path_factory.mktemp("stranger"), "stranger"))


def raising_token() -> str:
    raise RuntimeError("the vault is shut")


def expired_token() -> tuple[str, float]:
    return secured_kafka.unsecured_token(-60)


@dataclass(frozen=True)
class Mistake:
    """One of them.

    Attributes:
        settings: of the producer that makes it.
        says: patterns that the error's text has; the server's address is looked for as well.
        is_local: found without asking a broker, so that no address can be told.
    """

    settings: Callable[[World], Settings]
    says: tuple[str, ...]
    is_local: bool = False


MISTAKES = {
    "wrong CA": Mistake(
        lambda w: w.client("SCRAM", ssl_truststore_location=str(w.stranger.certificate)),
        ("certificate", "ssl[._]truststore"),
    ),
    "expired certificate": Mistake(lambda w: w.client("EXPIRED"), ("expired",)),
    "certificate of tomorrow": Mistake(lambda w: w.client("EARLY"), ("not valid before", "clock")),
    "wrong host name": Mistake(
        lambda w: w.client("ELSEWHERE"),
        ("127.0.0.1", re.escape(secured_kafka.ELSEWHERE), "ssl[._]endpoint"),
    ),
    "client certificate missing": Mistake(
        lambda w: w.client("MUTUAL", ssl_keystore_location=None, ssl_keystore_type=None),
        ("certificate", "ssl[._]keystore"),
    ),
    "client certificate refused": Mistake(
        lambda w: w.client("MUTUAL", ssl_keystore_location=str(w.own_certificate().both)),
        ("certificate", "ssl[._]keystore"),
    ),
    "key that does not fit": Mistake(
        lambda w: w.client(
            "MUTUAL",
            ssl_keystore_location=None,
            ssl_keystore_type=None,
            ssl_keystore_certificate_chain=w.own_certificate().certificate.read_text(),
            ssl_keystore_key=w.secured.authority.issue("another").key.read_text(),
        ),
        ("key", "certificate", "ssl[._]keystore"),
        is_local=True,
    ),
    "wrong password": Mistake(
        lambda w: w.client("SCRAM", sasl_password=WRONG), (USER, "sasl[._]password")
    ),
    "unknown user": Mistake(
        lambda w: w.client("SCRAM", sasl_username="nobody"), ("nobody", "sasl[._]username")
    ),
    "mechanism not offered": Mistake(
        lambda w: w.client("PLAIN", sasl_mechanism="SCRAM-SHA-512"),
        ("SCRAM-SHA-512", "PLAIN", "sasl[._]mechanism"),
    ),
    "plaintext to TLS": Mistake(
        lambda w: w.client("TLS13", security_protocol="PLAINTEXT"), ("TLS", "security[._]protocol")
    ),
    "TLS to plaintext": Mistake(
        lambda w: w.client("CLEAR", security_protocol="SASL_SSL"), ("TLS", "security[._]protocol")
    ),
    "expired token": Mistake(
        lambda w: w.client("TOKEN", sasl_oauth_token_provider=expired_token), ("token", "expired")
    ),
    "token callback raises": Mistake(
        lambda w: w.client("TOKEN", sasl_oauth_token_provider=raising_token),
        ("token", "raising_token raised RuntimeError"),
        is_local=True,
    ),
    "token endpoint unreachable": Mistake(
        lambda w: w.client(
            "TOKEN",
            sasl_oauthbearer_token_endpoint_url="http://127.0.0.1:1/token",
            sasl_oauthbearer_client_credentials_client_id="ada",
            sasl_oauthbearer_client_credentials_client_secret=WRONG,
        ),
        ("127.0.0.1:1", "sasl[._]oauthbearer[._]token[._]endpoint"),
        is_local=True,
    ),
    "no shared version of TLS": Mistake(
        lambda w: w.client("TLS13", ssl_enabled_protocols="TLSv1.2"),
        ("version", "ssl[._]enabled[._]protocols"),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_at_once(name: str, world: World) -> None:
    mistake = MISTAKES[name]
    settings = mistake.settings(world)
    with CountingRelay(settings["bootstrap.servers"]) as relay:
        settings["bootstrap.servers"] = relay.address
        began_s = time.monotonic()
        with pytest.raises(KafkaError) as caught, KafkaProducer(settings) as producer:
            producer.partitions_for("t")
        took_s = time.monotonic() - began_s
        error = caught.value
        assert took_s < TOLD_WITHIN_S, error
        for pattern in mistake.says:
            assert re.search(pattern, str(error)), f"{pattern} is not in: {error}"
        for secret in (PASSWORD, WRONG):
            assert secret not in str(error)
        if not mistake.is_local:
            assert isinstance(error, AuthenticationError)
            assert relay.address in str(error)


def test_nobody_storms_a_server_that_refuses_him(world: World) -> None:
    """All of them at once, each through a relay of its own."""
    relays: dict[str, CountingRelay] = {}
    with contextlib.ExitStack() as stack:
        for name, mistake in MISTAKES.items():
            if mistake.is_local:
                continue
            settings = mistake.settings(world)
            relay = stack.enter_context(CountingRelay(settings["bootstrap.servers"]))
            settings["bootstrap.servers"] = relay.address
            producer = stack.enter_context(KafkaProducer(settings))
            with pytest.raises(KafkaError):
                producer.partitions_for("t")
            relays[name] = relay
        for relay in relays.values():
            relay.connection_count = 0
        began_s = time.monotonic()
        time.sleep(COUNTED_S)
        wait_for(lambda: all(relay.connection_count for relay in relays.values()))
        found = {name: relay.connection_count for name, relay in relays.items()}
        most = MOST_CONNECTIONS * (time.monotonic() - began_s) / COUNTED_S
    assert len(found) == len([each for each in MISTAKES.values() if not each.is_local])
    assert max(found.values()) <= most, found


def test_a_topic_that_is_not_allowed_is_told_at_once(secured: Secured, topic: TopicFactory) -> None:
    name = topic(secured.kafka)
    secured_kafka.deny(secured.kafka, USER, name)
    with KafkaProducer(secured.client("SCRAM")) as producer:
        began_s = time.monotonic()
        with pytest.raises(KafkaError) as caught:
            producer.send(name, b"x").result()
        assert time.monotonic() - began_s < TOLD_WITHIN_S
        assert name in str(caught.value)
        assert caught.value.code == 29
