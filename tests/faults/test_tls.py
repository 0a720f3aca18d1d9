"""By TLS: what is misconfigured is told at once, and certificates may change."""

from __future__ import annotations

import os
import shutil
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.broker.broker import Broker
from fastprod.errors import AuthenticationError, ConfigError, KafkaError
from support.security.authority import DAY, HOUR, CertificateAuthority, Identity
from support.security.tls_listener import CountingListener
from support.security.tls_peer import server_context

MIB = 1 << 20
PATIENCE_S = 30


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "authority")


@pytest.fixture
def trusting(authority: CertificateAuthority) -> dict[str, Any]:
    """The settings of a client that trusts the authority."""
    return {"security_protocol": "SSL", "ssl_truststore_location": str(authority.certificate)}


def _broker(identity: Identity, **settings: Any) -> Broker:
    return Broker(ssl_certfile=str(identity.certificate), ssl_keyfile=str(identity.key), **settings)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_records_go_by_tls(
    authority: CertificateAuthority, trusting: dict[str, Any], version: str, host: str
) -> None:
    with _broker(authority.issue("good")) as broker:
        servers = broker.bootstrap_servers.replace("127.0.0.1", host)
        with KafkaProducer(
            bootstrap_servers=servers, ssl_enabled_protocols=version, **trusting
        ) as producer:
            futures = [producer.send("t", os.urandom(1_000)) for _ in range(2_000)]
            futures.append(producer.send("t", os.urandom(MIB - 1_000)))
            producer.flush(PATIENCE_S)
            assert [future.result(0).offset for future in futures] == list(range(2_001))


def _refused(listener: CountingListener, seconds: float = 0, **settings: Any) -> str:
    """What `send` raises; for `seconds` connections go on to come, which are counted."""
    producer = KafkaProducer(
        bootstrap_servers=listener.bootstrap, max_block_ms=PATIENCE_S * 1_000, **settings
    )
    try:
        with pytest.raises(AuthenticationError) as caught:
            producer.send("t", b"x").result(PATIENCE_S)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
    finally:
        producer.close(0)
    assert 1 <= listener.most_in(3) <= 5
    text = str(caught.value)
    assert listener.bootstrap in text
    return text


Certificate = Callable[[CertificateAuthority, Path], Identity]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _, folder: CertificateAuthority(folder, "other").issue("b"), "put its authority's"),
        (lambda ca, _: ca.issue("b", not_before=-3 * DAY, not_after=-DAY), "/CN=b expired on"),
        (lambda ca, _: ca.issue("b", not_before=HOUR), "/CN=b is not valid before"),
        (lambda ca, _: ca.issue("b", ["other.example"]), "it is for other.example, and not for"),
    ],
    ids=["unknown authority", "expired", "not yet valid", "wrong host"],
)
def test_a_brokers_certificate_that_is_not_good(
    authority: CertificateAuthority,
    trusting: dict[str, Any],
    tmp_path: Path,
    make: Certificate,
    words: str,
) -> None:
    """P-L.180"""
    with CountingListener(server_context(make(authority, tmp_path / "other"))) as listener:
        assert words in _refused(listener, 3 if "expired" in words else 0, **trusting)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shown", [False, True])
def test_a_client_that_is_not_accepted(
    authority: CertificateAuthority,
    trusting: dict[str, Any],
    tmp_path: Path,
    version: ssl.TLSVersion,
    shown: bool,
) -> None:
    """With TLS 1.3 the alert comes after the client's handshake."""
    server = server_context(authority.issue("b"), version)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.certificate)
    words = "set ssl_keystore_location"
    if shown:
        stranger = CertificateAuthority(tmp_path / "other", "other").issue("stranger")
        trusting |= {"ssl_keystore_location": str(stranger.both)}
        words = f"is ssl_keystore_location = '{stranger.both}' signed by whom"
    with CountingListener(server) as listener:
        assert words in _refused(listener, **trusting)


def test_no_version_in_common(authority: CertificateAuthority, trusting: dict[str, Any]) -> None:
    server = server_context(authority.issue("b"), ssl.TLSVersion.TLSv1_2)
    with CountingListener(server) as listener:
        text = _refused(listener, ssl_enabled_protocols="TLSv1.3", **trusting)
    assert "we take TLSv1.3 to TLSv1.3; set ssl_enabled_protocols" in text


def test_tls_to_a_listener_in_plain_text(trusting: dict[str, Any]) -> None:
    """It closes without a word: a probe finds out."""
    with CountingListener(None) as listener:
        text = _refused(listener, 3, **trusting)
    assert "does not speak TLS: it answers in plain text" in text
    assert "security_protocol is SSL: set it to PLAINTEXT" in text


def test_plain_text_to_a_listener_with_tls(authority: CertificateAuthority) -> None:
    """It closes without a word: a probe finds out."""
    with CountingListener(server_context(authority.issue("b"))) as listener:
        text = _refused(listener, 3)
    assert "speaks TLS, and was spoken to in plain text" in text
    assert "security_protocol is PLAINTEXT: set it to SSL" in text


def test_a_key_that_does_not_fit_ends_the_constructor(
    authority: CertificateAuthority, trusting: dict[str, Any]
) -> None:
    one, other = authority.issue("one"), authority.issue("other")
    with pytest.raises(ConfigError, match="does not belong to the certificate"):
        KafkaProducer(
            bootstrap_servers="localhost:1",
            ssl_keystore_certificate_chain=one.certificate.read_text(),
            ssl_keystore_key=other.key.read_text(),
            **trusting,
        )


def test_certificates_that_are_replaced_are_taken_up(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """The authority changes at both ends, with a restart of the broker; no record is lost."""
    truststore = tmp_path / "truststore.pem"
    shutil.copy(authority.certificate, truststore)
    newer = CertificateAuthority(tmp_path / "newer", "newer authority")
    first = _broker(authority.issue("b")).start()
    port = int(first.bootstrap_servers.rpartition(":")[2])
    producer = KafkaProducer(
        bootstrap_servers=first.bootstrap_servers,
        security_protocol="SSL",
        ssl_truststore_location=str(truststore),
        delivery_timeout_ms=PATIENCE_S * 4_000,
    )
    try:
        assert producer.send("t", b"before").result(PATIENCE_S).offset == 0
        first.stop()
        waiting = producer.send("t", b"meanwhile")
        shutil.copy(newer.certificate, truststore)
        with _broker(newer.issue("b"), port=port):
            assert waiting.result(PATIENCE_S).offset == 0
    finally:
        producer.close(0)
        first.stop()


def test_a_broker_that_stays_away_is_no_failed_authentication(trusting: dict[str, Any]) -> None:
    with (
        pytest.raises(KafkaError) as caught,
        KafkaProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=300, **trusting) as producer,
    ):
        producer.send("t", b"x").result(PATIENCE_S)
    assert not isinstance(caught.value, AuthenticationError)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (ssl.VERIFY_DEFAULT, "is signed by"),
        (ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN, "its certificate was refused"),
        (ssl.VERIFY_X509_PARTIAL_CHAIN, ""),
    ],
)
def test_a_context_of_the_callers_trusts_nobody_that_python_would_not(
    tmp_path: Path, authority: CertificateAuthority, flags: ssl.VerifyFlags, words: str
) -> None:
    """A chain that ends at an intermediate, whose certificates lack what RFC 5280 demands."""
    intermediate = CertificateAuthority(tmp_path / "between", "between", authority)
    identity = intermediate.issue("good")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(intermediate.certificate)
    context.verify_flags = flags
    settings: dict[str, Any] = {"security_protocol": "SSL", "ssl_context": context}
    if words:
        with CountingListener(server_context(identity)) as listener:
            assert words in _refused(listener, **settings)
        return
    with (
        _broker(identity) as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer,
    ):
        assert producer.send("t", b"x").result(PATIENCE_S).offset == 0
