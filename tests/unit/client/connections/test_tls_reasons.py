"""Each failure of TLS says what to change."""

from __future__ import annotations

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections.tls_reasons import is_misconfiguration, tls_reason
from fastprod.security.pem_source import PemSource
from fastprod.security.tls_settings import TlsSettings

CERTIFICATE = (
    b"verified=said by OpenSSL\nnot_before=2026-01-01 00:00:00 UTC\n"
    b"not_after=2026-02-01 00:00:00 UTC\nsubject=/CN=b\nissuer=/CN=ca\nnames=b.example, 10.0.0.1\n"
)
OURS = TlsSettings(certificate=PemSource("/etc/me.pem", setting="ssl_keystore_location"))


def _event(verify: int = 0, reason: int = 134, data: bytes = b"") -> ControlEvent:
    return ControlEvent(
        EventKind.ON_DISCONNECTED,
        reason=CloseReason.CLOSE_TLS,
        tls_verify=verify,
        tls_reason=reason,
        data=data,
    )


def _said(event: ControlEvent, settings: TlsSettings | None = None) -> str:
    return tls_reason("b:9093 (node 1)", "b", event, settings or TlsSettings())


@pytest.mark.parametrize(
    ("verify", "words"),
    [
        (20, "/CN=b is signed by /CN=ca, which is not trusted by the system's certificates: set"),
        (9, "/CN=b is not valid before 2026-01-01 00:00:00 UTC"),
        (10, "/CN=b expired on 2026-02-01 00:00:00 UTC"),
        (62, "it is for b.example, 10.0.0.1, and not for 'b'"),
        (64, "ssl_endpoint_identification_algorithm"),
        (23, "/CN=b was revoked by /CN=ca"),
        (3, "ssl_crl_location has no list of /CN=ca that is in force (said by OpenSSL)"),
        (24, "/CN=b, issued by /CN=ca: said by OpenSSL"),
    ],
)
def test_certificates(verify: int, words: str) -> None:
    text = _said(_event(verify, data=CERTIFICATE))
    assert text.startswith("TLS with broker b:9093 (node 1) failed: its certificate was refused: ")
    assert words in text


def test_an_address_that_stands_in_the_cn_alone() -> None:
    """P-L.180: RFC 6125: it is no name, and counts as a subjectAltName of its kind only."""
    event = _event(64, data=CERTIFICATE.replace(b"names=b.example", b"names=10.0.0.9"))
    text = tls_reason("10.0.0.9:9093", "10.0.0.9", event, TlsSettings())
    assert "names '10.0.0.9', but only as if that were a host's name" in text
    assert "SAN=ip:10.0.0.9" in text
    assert "not for '10.0.0.9'" not in text


def test_a_certificate_that_signs_itself() -> None:
    data = CERTIFICATE.replace(b"/CN=ca", b"/CN=b")
    assert "is signed by itself" in _said(_event(18, data=data))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (PemSource("/etc/ca.pem", setting="ssl.ca.location"), "ssl.ca.location = '/etc/ca.pem'"),
        (PemSource(text="-----BEGIN ", setting="ssl.ca.pem"), "not trusted by ssl.ca.pem: put"),
    ],
)
def test_whom_we_trust_is_named(source: PemSource, words: str) -> None:
    assert words in _said(_event(20, data=CERTIFICATE), TlsSettings(ca=source))


def test_the_list_is_named() -> None:
    crl = PemSource("/etc/crl.pem", setting="ssl.crl.location")
    assert "ssl.crl.location has no list" in _said(
        _event(12, data=CERTIFICATE), TlsSettings(crl=crl)
    )


@pytest.mark.parametrize(
    ("reason", "settings", "words"),
    [
        (267, TlsSettings(), "it does not speak TLS"),
        (156, TlsSettings(), "it does not speak TLS"),
        (1070, TlsSettings(min_version="TLSv1.3"), "we take TLSv1.3 to TLSv1.3"),
        (258, TlsSettings(), "ssl_enabled_protocols"),
        (1116, TlsSettings(), "it wants a client's certificate (why): set ssl_keystore_location"),
        (1042, TlsSettings(), "it wants a client's certificate (why)"),
        (1048, OURS, "it refused our certificate (why): is ssl_keystore_location = '/etc/me.pem'"),
        (1040, TlsSettings(), "no cipher is shared, or it refused our certificate (why)"),
        (1040, OURS, "look at ssl_cipher_suites"),
        (281, TlsSettings(), "failed: why"),
    ],
)
def test_alerts_and_other_ends(reason: int, settings: TlsSettings, words: str) -> None:
    assert words in _said(_event(0, reason, b"reason=why\nverified=\n"), settings)


def test_nothing_said_is_said() -> None:
    assert _said(_event(0, 0)).endswith("failed: OpenSSL gave no reason")


@pytest.mark.parametrize(("reason", "is_one"), [(281, False), (1020, False), (134, True)])
def test_what_was_damaged_on_its_way_is_tried_again(reason: int, is_one: bool) -> None:
    assert is_misconfiguration(_event(reason=reason)) is is_one
