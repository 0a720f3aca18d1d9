"""From settings to TlsSettings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.pem_source import PemSource
from fastprod.security.tls_settings import TlsSettings

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n"


def tls(settings: dict[str, Any] | None = None, **more: Any) -> TlsSettings:
    found = ProducerConfig(
        settings or {}, bootstrap_servers="h:1", security_protocol="SSL", **more
    ).tls
    assert found is not None
    return found


def refused(settings: dict[str, Any] | None = None, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        tls(settings, **more)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


def test_by_default_the_system_is_trusted_and_names_are_checked() -> None:
    assert tls() == TlsSettings()
    assert (TlsSettings().verify, TlsSettings().check_host_name) == (True, True)


def test_kafkas_store_in_one_file_is_key_and_certificate() -> None:
    found = tls({"ssl.keystore.location": "/k.pem", "ssl.key.password": "hunter2"})
    assert (
        found.certificate
        == found.private_key
        == PemSource("/k.pem", setting="ssl.keystore.location")
    )
    assert found.key_password == "hunter2"


def test_texts_are_taken_as_they_are() -> None:
    found = tls(
        ssl_keystore_certificate_chain=CERTIFICATE,
        ssl_keystore_key=KEY,
        ssl_truststore_certificates=CERTIFICATE,
        ssl_truststore_type="pem",
    )
    assert [each and each.text for each in (found.ca, found.certificate, found.private_key)] == [
        CERTIFICATE,
        CERTIFICATE,
        KEY,
    ]
    both = tls(ssl_keystore_certificate_chain=CERTIFICATE + KEY)
    assert both.certificate == both.private_key


@pytest.mark.parametrize(
    ("certfile", "keyfile"),
    [("ssl_certfile", "ssl_keyfile"), ("ssl.certificate.location", "ssl.key.location")],
)
def test_separate_files_as_librdkafka_and_kafka_python_have_them(
    certfile: str, keyfile: str
) -> None:
    found = tls({certfile: Path("/c.pem"), keyfile: "/k.pem"})
    assert found.certificate == PemSource("/c.pem", setting=certfile)
    assert found.private_key == PemSource("/k.pem", setting=keyfile)
    alone = tls({certfile: "/c.pem"})
    assert alone.private_key == alone.certificate


@pytest.mark.parametrize("value", ["", "none", "NONE"])
def test_host_names_can_go_unchecked(value: str) -> None:
    found = tls(ssl_endpoint_identification_algorithm=value)
    assert (found.verify, found.check_host_name) == (True, False)
    assert tls(ssl_check_hostname=False) == found
    unverified = tls({"enable.ssl.certificate.verification": "false"})
    assert (unverified.verify, unverified.check_host_name) == (False, False)


@pytest.mark.parametrize(
    ("settings", "low", "high"),
    [
        ({}, "TLSv1.2", "TLSv1.3"),
        ({"ssl.protocol": "TLS"}, "TLSv1.2", "TLSv1.3"),
        ({"ssl.protocol": "TLSv1.2"}, "TLSv1.2", "TLSv1.2"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "TLSv1.3", "TLSv1.3"),
        ({"ssl.enabled.protocols": ["TLSv1.2"]}, "TLSv1.2", "TLSv1.2"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "TLSv1.3", "TLSv1.3"),
    ],
)
def test_versions(settings: dict[str, Any], low: str, high: str) -> None:
    found = tls(settings)
    assert (found.min_version, found.max_version) == (low, high)


def test_old_versions_are_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="fastprod.config")
    assert tls({"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"}).max_version == "TLSv1.2"
    assert "ssl.enabled.protocols: versions of TLS before 1.2 are not used" in caplog.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ssl.ca.location": "/a", "ssl.ca.pem": CERTIFICATE}, "ssl.ca.pem and ssl.ca.location"),
        (
            {"ssl_certfile": "/c", "ssl.keystore.location": "/k"},
            "ssl_certfile and ssl.keystore.location are both given; leave one out",
        ),
        ({"ssl_keyfile": "/k"}, "ssl_keyfile is given without ssl_certificate_location"),
        ({"ssl.key.pem": KEY}, "ssl.key.pem is given without ssl_keystore_certificate_chain"),
        ({"ssl.certificate.pem": CERTIFICATE}, "given without ssl_keystore_key; give both"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2 or TLSv1.3 must be among them"),
        ({"ssl.enabled.protocols": "TLSv1.4"}, "there is no TLSv1.4"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "does not have it"),
        (
            {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"},
            "ssl.cipher.suites has no suite for the versions",
        ),
        (
            {"ssl.truststore.location": "/t x.jks", "ssl.truststore.password": "hunter2"},
            "keytool -list -rfc -keystore '/t x.jks' > '/t x.pem'",
        ),
        ({"ssl.truststore.location": "/t.p12"}, "openssl pkcs12 -nokeys -in /t.p12 -out /t.pem"),
        ({"ssl.keystore.location": "/k", "ssl.keystore.type": "PKCS12"}, "-in /k -out /k.pem"),
        ({"ssl.keystore.location": "/k.jks"}, "keytool -importkeystore -srckeystore /k.jks"),
        (
            {"ssl.truststore.location": "/t", "ssl.truststore.password": "hunter2"},
            "ssl.truststore.password is given: a JKS store cannot be read here",
        ),
        (
            {
                "ssl.keystore.location": "/k",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.password": "hunter2",
            },
            "ssl.keystore.password is given, and a store in PEM has none",
        ),
    ],
)
def test_what_contradicts_itself_or_is_javas_is_refused(
    settings: dict[str, Any], text: str
) -> None:
    assert text in refused(settings)
