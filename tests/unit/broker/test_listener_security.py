"""What a broker asks of its clients: which settings are taken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from fastprod.broker import Broker
from fastprod.broker.listener_security import ListenerSecurity
from fastprod.errors import ConfigError
from support.broker import certificates

USERS = {"alice": "wonderland"}


def test_the_protocol_has_kafkas_name(tmp_path: Path) -> None:
    certfile, keyfile = certificates.make(tmp_path)
    for given, name in (
        ((None, None, None), "PLAINTEXT"),
        ((certfile, keyfile, None), "SSL"),
        ((None, None, USERS), "SASL_PLAINTEXT"),
        ((certfile, keyfile, USERS), "SASL_SSL"),
    ):
        assert ListenerSecurity.make(*given).protocol == name


def test_the_key_may_be_in_the_file_of_the_certificate(tmp_path: Path) -> None:
    certfile, keyfile = certificates.make(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(certfile.read_bytes() + keyfile.read_bytes())
    assert ListenerSecurity.make(both, None, None).ssl_context is not None


def test_passwords_are_not_shown() -> None:
    assert "wonderland" not in repr(ListenerSecurity.make(None, None, USERS))


@pytest.mark.parametrize("users", [{}, {"": "x"}, {"a": ""}, {"a\0b": "x"}, {"a": 1}])
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
        with pytest.raises(ConfigError, match=f"ssl_certfile .*{cert.name}.* cannot be used"):
            Broker(ssl_certfile=cert, ssl_keyfile=key)


def test_a_refusal_comes_before_the_idle_time_is_over() -> None:
    """As Kafka checks."""
    idle: dict[str, Any] = {"connections_max_idle_ms": 100}
    with pytest.raises(ConfigError, match="would be closed before its refusal"):
        Broker(sasl_users=USERS, **idle)
    Broker(sasl_users=USERS, connection_failed_authentication_delay_ms=99, **idle)
    Broker(**idle)
