"""By TLS to Apache Kafka: certificates on both sides, and what its Java says to a wrong client."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import AuthenticationError
from support.security.secured_kafka import Secured

PATIENCE_S = 30
MIB = 1 << 20


def _refused(settings: dict[str, Any]) -> str:
    """What `send` raises, within a second."""
    with KafkaProducer(settings, max_block_ms=PATIENCE_S * 1_000) as producer:
        began_s = time.monotonic()
        with pytest.raises(AuthenticationError) as caught:
            producer.send("t", b"x").result(PATIENCE_S)
        assert time.monotonic() - began_s < PATIENCE_S / 2, "told, and not after max_block_ms"
    text = str(caught.value)
    assert settings["bootstrap.servers"] in text
    return text


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_records_go_with_certificates_on_both_sides(
    secured: Secured, topic: TopicFactory, version: str
) -> None:
    name = topic(secured.kafka)
    settings = secured.client("MUTUAL") | {"ssl.enabled.protocols": version}
    with KafkaProducer(settings, max_request_size=4 * MIB, batch_size=MIB) as producer:
        futures = [producer.send(name, os.urandom(900), partition=0) for _ in range(5_000)]
        producer.flush(PATIENCE_S)
        assert [future.result(0).offset for future in futures] == list(range(5_000))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_without_a_certificate_is_told_so(secured: Secured, version: str) -> None:
    settings = secured.client("MUTUAL") | {"ssl.enabled.protocols": version}
    del settings["ssl.keystore.location"], settings["ssl.keystore.type"]
    assert "it wants a client's certificate" in _refused(settings)


def test_plain_text_to_tls_is_told(secured: Secured) -> None:
    text = _refused({"bootstrap.servers": secured.kafka.bootstrap("MUTUAL")})
    assert "speaks TLS, and was spoken to in plain text" in text


def test_tls_to_plain_text_is_told(secured: Secured) -> None:
    settings = secured.client("MUTUAL") | {"bootstrap.servers": secured.kafka.bootstrap("CLEAR")}
    assert "does not speak TLS: it answers in plain text" in _refused(settings)
