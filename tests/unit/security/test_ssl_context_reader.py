"""fastprod.security.ssl_context_reader: what a caller's context says, and what it cannot."""

from __future__ import annotations

import pickle
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.tls_settings import TlsSettings
from support.security.authority import CertificateAuthority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


def client(authority: CertificateAuthority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.certificate)
    return context


def tls(context: Any, **more: Any) -> TlsSettings:
    config = ProducerConfig(
        bootstrap_servers="h:1", security_protocol="SSL", ssl_context=context, **more
    )
    assert config.tls is not None
    assert pickle.loads(pickle.dumps(config)).tls == config.tls
    return config.tls


def refused(context: Any, **more: Any) -> str:
    with pytest.raises(ConfigError, match="ssl_context") as caught:
        tls(context, **more)
    return str(caught.value)


def test_what_can_be_read_is_read(authority: CertificateAuthority) -> None:
    context = client(authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    found = tls(context)
    assert found.ca is not None
    assert ssl.PEM_cert_to_DER_cert(found.ca.read().decode()) == ssl.PEM_cert_to_DER_cert(
        authority.certificate.read_text()
    )
    assert (found.verify, found.check_host_name) == (True, True)
    assert (found.min_version, found.max_version) == ("TLSv1.2", "TLSv1.3")
    assert found.ciphers == f"ECDHE-RSA-AES128-GCM-SHA256:@SECLEVEL={context.security_level}"
    assert found.cipher_suites is not None
    assert "TLS_AES_256_GCM_SHA384" in found.cipher_suites.split(":")


def test_a_context_that_checks_nothing() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    found = tls(context)
    assert (found.ca, found.verify, found.check_host_name) == (None, False, False)
    assert (found.min_version, found.max_version) == ("TLSv1.2", "TLSv1.2")


def test_flags_and_options(authority: CertificateAuthority) -> None:
    context = client(authority)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.options |= ssl.OP_NO_TLSv1_2
    found = tls(lambda: context)
    assert (found.strict, found.partial_chain, found.min_version) == (True, True, "TLSv1.3")


def test_a_client_certificate_must_be_given_beside_it(authority: CertificateAuthority) -> None:
    identity = authority.issue("ada")
    context = client(authority)
    context.load_cert_chain(identity.both)
    if sys.version_info < (3, 14):
        assert "has a client certificate, whose key cannot be read off it" in refused(context)
    found = tls(context, ssl_certfile=identity.both)
    assert found.certificate is not None
    assert found.certificate.path == str(identity.both)
    assert tls(client(authority)).certificate is None


def test_withdrawn_certificates_must_be_given_beside_it(authority: CertificateAuthority) -> None:
    path = authority.revoke(authority.issue("bob"))
    context = client(authority)
    context.load_verify_locations(path)
    assert "give their file beside ssl_context, as ssl_crl_location" in refused(context)
    found = tls(context, ssl_crlfile=path)
    assert found.crl is not None
    context = client(authority)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    assert "lists of withdrawn certificates" in refused(context)


class Careful(ssl.SSLContext):
    """Checks more, perhaps."""


def _server() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def _subclass() -> ssl.SSLContext:
    return Careful(ssl.PROTOCOL_TLS_CLIENT)


def _empty() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _old() -> ssl.SSLContext:
    context = _empty()
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
    return context


def _with_server_name() -> ssl.SSLContext:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS)
    context.sni_callback = lambda *_: None
    return context


def _without_common_name() -> ssl.SSLContext:
    context = _empty()
    context.hostname_checks_common_name = False
    return context


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (_server, "is a server's"),
        (_subclass, "is of the subclass Careful"),
        (_empty, "has no CA certificate that can be read"),
        (_old, "allows neither TLS 1.2 nor TLS 1.3"),
        (_with_server_name, "has an sni_callback"),
        (_without_common_name, "hostname_checks_common_name=False"),
        (lambda: 1 / 0, "the function failed (ZeroDivisionError"),
        (lambda: 5, "must be an ssl.SSLContext, not int"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(make: Callable[[], Any], text: str) -> None:
    assert text in refused(make)


def test_a_key_log_is_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    context = client(authority)
    context.keylog_filename = str(tmp_path / "keys")
    assert "has a keylog_filename" in refused(context)


def test_other_settings_of_tls_beside_it_are_refused(authority: CertificateAuthority) -> None:
    text = refused(client(authority), ssl_cafile="/ca.pem")
    assert "ssl_cafile and ssl_context are both given" in text
    assert "ssl_check_hostname" in refused(client(authority), ssl_check_hostname=True)
