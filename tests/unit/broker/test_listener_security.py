"""What a broker asks of its clients: which settings are taken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from fastprod.broker import Broker
from fastprod.broker.listener_security import ListenerSecurity
from fastprod.broker.listeners import BrokerListener
from fastprod.broker.network.sasl.mechanisms import Mechanisms
from fastprod.broker.network.sasl.users import Users
from fastprod.errors import ConfigError
from support.broker import certificates

USERS = {"alice": "wonderland"}
SASL = Mechanisms("PLAIN", Users(USERS))


def test_the_protocol_has_kafkas_name(tmp_path: Path) -> None:
    shown = certificates.make(tmp_path).server()
    for given, name in (
        ((None, None), "PLAINTEXT"),
        ((shown, None), "SSL"),
        ((None, SASL), "SASL_PLAINTEXT"),
        ((shown, SASL), "SASL_SSL"),
    ):
        assert ListenerSecurity(*given).protocol == name


def test_the_key_may_be_in_the_file_of_the_certificate(tmp_path: Path) -> None:
    certfile, keyfile = certificates.make(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(certfile.read_bytes() + keyfile.read_bytes())
    assert Broker(ssl_certfile=both).certificate_pem == certfile.read_text()


@pytest.mark.parametrize("users", [{"": "x"}, {"a": ""}, {"a\0b": "x"}, {"a": 1}])
def test_users_who_could_not_connect_are_refused(users: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigError, match="sasl_users") as caught:
        Broker(sasl_users=users)
    assert caught.value.key == "sasl_users"


def test_a_key_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ssl_keyfile is given without ssl_certfile"):
        Broker(ssl_keyfile=certificates.make(tmp_path).keyfile)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    certfile, keyfile = certificates.make(tmp_path)
    (tmp_path / "other").mkdir()
    other = certificates.make(tmp_path / "other").keyfile
    locked = tmp_path / "locked.pem"
    private = serialization.load_pem_private_key(keyfile.read_bytes(), None)
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    missing = tmp_path / "none.pem"
    for cert, key in ((missing, None), (certfile, None), (certfile, other), (certfile, locked)):
        with pytest.raises(ConfigError, match=f"ssl_certfile .*{cert.name}.* cannot be "):
            Broker(ssl_certfile=cert, ssl_keyfile=key)


def test_a_refusal_comes_before_the_idle_time_is_over() -> None:
    """As Kafka checks."""
    idle: dict[str, Any] = {"connections_max_idle_ms": 100}
    with pytest.raises(ConfigError, match="would be closed before its refusal"):
        Broker(sasl_users=USERS, **idle)
    Broker(sasl_users=USERS, connection_failed_authentication_delay_ms=99, **idle)
    Broker(**idle)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"listeners": {"A": "SSL"}}, "listener A speaks SSL; give ssl_certfile"),
        ({"listeners": {"A": "SASL_PLAINTEXT"}}, "listener A .* give sasl_users"),
        ({"listeners": {"A": "PLAINTEXT"}, "sasl_users": USERS}, "no listener speaks SASL_"),
        ({"sasl_users": USERS, "sasl_mechanisms": ["GSSAPI"]}, "there are PLAIN, "),
    ],
)
def test_listeners_have_what_they_need(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Broker(**arguments)


def test_a_certificate_that_no_listener_shows_is_a_mistake(tmp_path: Path) -> None:
    certfile, keyfile = certificates.make(tmp_path)
    with pytest.raises(ConfigError, match="no listener speaks SSL"):
        Broker(ssl_certfile=certfile, ssl_keyfile=keyfile, listeners={"A": BrokerListener()})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ssl_client_auth": "required"}, "ssl_client_auth goes with ssl_certfile"),
        ({"ssl_cafile": "ca.pem", "tls": True}, "no client is asked for a certificate"),
        ({"ssl_client_auth": "required", "tls": True}, "is required, and .* give ssl_cafile"),
        ({"ssl_certfile": "x.pem", "tls": True}, "leave ssl_certfile out"),
    ],
)
def test_what_is_asked_of_clients_goes_with_a_certificate(
    arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Broker(**arguments)


def test_only_a_broker_with_tls_has_a_certificate_to_replace(tmp_path: Path) -> None:
    """B-D6.5."""
    certfile, keyfile = certificates.make(tmp_path)
    with pytest.raises(ConfigError, match="no listener speaks TLS"):
        Broker().replace_certificate(certfile, keyfile)
    assert Broker().certificate_pem is None
    broker = Broker(ssl_certfile=certfile, ssl_keyfile=keyfile)
    (tmp_path / "other").mkdir()
    other = certificates.make(tmp_path / "other")
    broker.replace_certificate(*other)
    assert broker.certificate_pem == other.certfile.read_text()
