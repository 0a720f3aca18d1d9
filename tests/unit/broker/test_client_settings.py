"""Settings of clients, in their own names."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from fastprod.broker.client_settings import FLAVOURS, Login, Way, certificates_of, settings_for
from fastprod.errors import ConfigError
from support.broker import certificates

PASSWORD = "secret"


def test_certificates_are_taken_without_their_keys(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    certificate = made.certfile.read_text()
    both = made.keyfile.read_text() + certificate + certificate
    assert certificates_of(both) == certificate * 2
    assert "PRIVATE" not in certificates_of(both)
    assert certificates_of("nothing") == ""


def test_each_client_has_its_names(tmp_path: Path) -> None:
    trusted = certificates.make(tmp_path).certfile.read_text()
    way = Way("h:1", "SASL_SSL", trusted, Login("SCRAM-SHA-256", "ada", PASSWORD))
    assert settings_for(way, "kafka") == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ada",
        "sasl.password": PASSWORD,
    }
    assert settings_for(way, "librdkafka")["ssl.ca.pem"] == trusted
    assert isinstance(settings_for(way, "aiokafka")["ssl_context"], ssl.SSLContext)
    assert settings_for(way, "java")["ssl.truststore.certificates"] == trusted


def test_without_security_there_is_little_to_say() -> None:
    way = Way("h:1", "PLAINTEXT", None, None)
    for flavour in FLAVOURS:
        assert set(settings_for(way, flavour).values()) == {"h:1", "PLAINTEXT"}


def test_a_login_does_not_show_its_password() -> None:
    assert PASSWORD not in repr(Way("h:1", "SASL_SSL", None, Login("PLAIN", "ada", PASSWORD)))


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="flavour is 'sarama'"):
        settings_for(Way("h:1", "PLAINTEXT", None, None), "sarama")
    token = Way("h:1", "SASL_PLAINTEXT", None, Login("OAUTHBEARER", "ada", None))
    with pytest.raises(ConfigError, match="needs a token for OAUTHBEARER"):
        settings_for(token, "kafka-python")
