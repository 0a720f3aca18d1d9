"""The listeners of Apache Kafka that our security is proved against, by confluent-kafka first."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from conftest import TopicFactory
from support.security.secured_kafka import LISTENERS, Secured, unsecured_token

TIMEOUT_S = 30.0
TOKEN_S = 60.0


def for_confluent(secured: Secured, listener: str) -> dict[str, Any]:
    settings: dict[str, Any] = secured.client(listener)
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        settings.pop(name, None)
    if authority := settings.pop("ssl.truststore.location", None):
        settings["ssl.ca.location"] = authority
    if identity := settings.pop("ssl.keystore.location", None):
        settings |= {"ssl.certificate.location": identity, "ssl.key.location": identity}
    if listener == "TOKEN":
        settings["oauth_cb"] = lambda _: unsecured_token(TOKEN_S)
    return settings


@pytest.mark.parametrize("listener", LISTENERS)
def test_confluent_kafka_is_let_in(listener: str, secured: Secured, topic: TopicFactory) -> None:
    name = topic(secured.kafka)
    producer = confluent_kafka.Producer(for_confluent(secured, listener))
    found: list[Any] = []
    producer.produce(name, b"x", on_delivery=lambda error, message: found.append((error, message)))
    assert producer.flush(TIMEOUT_S) == 0
    [(error, message)] = found
    assert error is None
    assert message.offset() == 0
