"""A context says what is wrong with what it was to be made of, and holds to what it was told."""

from __future__ import annotations

import gc
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from fastprod._core.tls.tls_context import TLS_VERSIONS, TlsContext, TlsContextError
from support.processes.forking import Child
from support.security.authority import DAY, HOUR, CertificateAuthority, Identity
from support.security.tls_peer import server_context
from support.security.tls_stage import TlsStage

EXPIRED = 10
NOT_YET_VALID = 9
SELF_SIGNED = 18
UNKNOWN_ISSUER = 20
REVOKED = 23


def _client(authority: CertificateAuthority, identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def _wrong(**parts: Any) -> TlsContextError:
    with pytest.raises(TlsContextError) as caught:
        TlsContext(**parts)
    return caught.value


def test_versions_are_named() -> None:
    assert TLS_VERSIONS == ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(
    ("parts", "part", "words"),
    [
        ({"ca": b""}, "ca", "there is no certificate in its 0 bytes"),
        ({"ca": b"\xfe\xed\xfe\xed\0\0\0\2"}, "ca", "this is a Java key store, JKS"),
        ({"ca": b"0\x82\x01\x0a"}, "ca", "this is binary: DER or PKCS12"),
        (
            {"ca": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
            "ca",
            "certificate 1 of the PEM does not parse",
        ),
        ({"min_version": "SSLv3"}, "min_version", "'SSLv3' is no version of TLS"),
        ({"max_version": "TLSv1.1"}, "max_version", "TLSv1.2, TLSv1.3"),
        ({"min_version": "TLSv1.3", "max_version": "TLSv1.2"}, "min_version", "newer than"),
        ({"ciphers": "NO-SUCH-CIPHER"}, "ciphers", "'NO-SUCH-CIPHER': no cipher match"),
        ({"cipher_suites": "TLS_NONE"}, "cipher_suites", "'TLS_NONE'"),
        ({"private_key": b"x"}, "certificate", "but no certificate"),
        ({"server_side": True}, "certificate", "a server needs a certificate"),
        ({"pkcs12": b"nothing of the kind"}, "pkcs12", "it is no PKCS12"),
        ({"crl": b"-----BEGIN X509 CRL-----\n"}, "crl", "revocation list 1"),
    ],
)
def test_what_is_wrong_is_said(parts: dict[str, Any], part: str, words: str) -> None:
    error = _wrong(**parts)
    assert error.part == part
    assert words in str(error)


def test_a_key_of_another_certificate_is_told(
    authority: CertificateAuthority, identity: Identity
) -> None:
    other = authority.issue("other")
    error = _wrong(
        certificate=identity.certificate.read_bytes(), private_key=other.key.read_bytes()
    )
    assert error.part == "private_key"
    assert "does not belong to the certificate" in str(error)


def test_a_certificate_without_its_key_is_told(identity: Identity) -> None:
    error = _wrong(certificate=identity.certificate.read_bytes())
    assert error.part == "private_key"
    assert "there is no private key" in str(error)


def test_a_damaged_key_is_told(identity: Identity) -> None:
    damaged = identity.key.read_bytes().replace(b"M", b"A", 3)
    error = _wrong(certificate=identity.certificate.read_bytes(), private_key=damaged)
    assert error.part == "private_key"


@pytest.mark.parametrize("password", [None, b"wrong", b"x" * 5_000])
def test_a_password_that_does_not_open_the_key_is_told(
    authority: CertificateAuthority, password: bytes | None
) -> None:
    locked = authority.issue("locked", password="open sesame")
    error = _wrong(
        certificate=locked.certificate.read_bytes(),
        private_key=locked.key.read_bytes(),
        key_password=password,
    )
    assert error.part == "key_password"
    assert "password" in str(error)
    assert "wrong" not in str(error)


def _encrypted(authority: CertificateAuthority) -> dict[str, bytes]:
    locked = authority.issue("locked", password="open sesame")
    return {
        "certificate": locked.certificate.read_bytes(),
        "private_key": locked.key.read_bytes(),
        "key_password": b"open sesame",
    }


def _in_one_file(authority: CertificateAuthority) -> dict[str, bytes]:
    return {"certificate": authority.issue("one file").both.read_bytes()}


def _with_its_chain(authority: CertificateAuthority) -> dict[str, bytes]:
    identity = authority.issue("chained")
    chain = identity.certificate.read_bytes() + authority.certificate.read_bytes()
    return {"certificate": chain, "private_key": identity.key.read_bytes()}


def _in_pkcs12(authority: CertificateAuthority) -> dict[str, bytes]:
    identity = authority.issue("pkcs")
    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    data = pkcs12.serialize_key_and_certificates(
        b"pkcs",
        key,
        x509.load_pem_x509_certificate(identity.certificate.read_bytes()),
        [x509.load_pem_x509_certificate(authority.certificate.read_bytes())],
        serialization.BestAvailableEncryption(b"open sesame"),
    )
    return {"pkcs12": data, "key_password": b"open sesame"}


@pytest.mark.parametrize("source", [_encrypted, _in_one_file, _with_its_chain, _in_pkcs12])
def test_a_client_shows_its_certificate(
    stage: TlsStage,
    authority: CertificateAuthority,
    source: Callable[[CertificateAuthority], dict[str, Any]],
) -> None:
    """P-L.180"""
    client = TlsContext(ca=authority.certificate.read_bytes(), **source(authority))
    server = server_context(stage.identity)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.certificate)
    channel, peer = stage.open(server, client)
    assert stage.exchange(channel, peer, b"hello") == b"hello"
    shown = peer.tls.getpeercert(binary_form=True)
    assert shown is not None
    assert x509.load_der_x509_certificate(shown).issuer.rfc4514_string() == "CN=test authority"


def test_a_wrong_password_of_a_pkcs12_is_told(authority: CertificateAuthority) -> None:
    error = _wrong(pkcs12=_in_pkcs12(authority)["pkcs12"], key_password=b"guessed")
    assert error.part == "key_password"
    assert "guessed" not in str(error)


def test_every_certificate_of_a_trusted_pem_counts(
    stage: TlsStage, authority: CertificateAuthority, tmp_path: Path
) -> None:
    others = [CertificateAuthority(tmp_path / str(n), f"other {n}") for n in range(3)]
    pem = b"".join(one.certificate.read_bytes() for one in (*others, authority))
    channel, peer = stage.open(client=TlsContext(ca=pem))
    assert stage.exchange(channel, peer, b"hello") == b"hello"


def test_the_certificate_itself_may_be_what_is_trusted(stage: TlsStage) -> None:
    client = TlsContext(ca=stage.identity.certificate.read_bytes())
    channel, peer = stage.open(client=client)
    assert stage.exchange(channel, peer, b"hello") == b"hello"


@pytest.mark.parametrize(
    ("limits", "verify"),
    [
        ({"not_before": -3 * DAY, "not_after": -DAY}, EXPIRED),
        ({"not_before": HOUR, "not_after": DAY}, NOT_YET_VALID),
    ],
)
def test_a_certificate_has_its_time(
    stage: TlsStage,
    authority: CertificateAuthority,
    limits: dict[str, Any],
    verify: int,
) -> None:
    channel, peer = stage.start(server_context(authority.issue("untimely", **limits)))
    gone = stage.end_of(channel)
    assert (gone.reason, gone.tls_verify) == ("TLS", verify)
    assert "not_after=20" in gone.text
    stage.until(
        lambda: "CERTIFICATE_EXPIRED" in str(peer.failure) or "BAD_CERT" in str(peer.failure)
    )


def test_nobody_else_is_trusted(stage: TlsStage, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path, "another authority")
    channel, _ = stage.start(client=TlsContext(ca=other.certificate.read_bytes()))
    assert stage.end_of(channel).tls_verify == UNKNOWN_ISSUER
    channel, _ = stage.start(client=TlsContext())
    assert stage.end_of(channel).tls_verify == UNKNOWN_ISSUER


def test_an_unverified_server_is_taken_as_it_is(stage: TlsStage) -> None:
    channel, peer = stage.open(client=TlsContext(verify=False), host="anybody")
    assert stage.exchange(channel, peer, b"hello") == b"hello"


def test_a_revoked_certificate_is_refused(stage: TlsStage, authority: CertificateAuthority) -> None:
    revoked = authority.issue("withdrawn")
    crl = authority.revoke(revoked).read_bytes()
    client = TlsContext(ca=authority.certificate.read_bytes(), crl=crl)
    channel, peer = stage.open(client=client)
    assert stage.exchange(channel, peer, b"hello") == b"hello"
    channel, _ = stage.start(server_context(revoked), client)
    assert stage.end_of(channel).tls_verify == REVOKED


def test_ciphers_are_as_chosen(stage: TlsStage, authority: CertificateAuthority) -> None:
    ca = authority.certificate.read_bytes()
    old = TlsContext(ca=ca, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256", max_version="TLSv1.2")
    _, peer = stage.open(server_context(stage.identity, ssl.TLSVersion.TLSv1_2), old)
    assert (peer.tls.cipher() or "?")[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    new = TlsContext(ca=ca, cipher_suites="TLS_CHACHA20_POLY1305_SHA256")
    _, peer = stage.open(client=new)
    assert (peer.tls.cipher() or "?")[0] == "TLS_CHACHA20_POLY1305_SHA256"


# A server's.


def _server(authority: CertificateAuthority, identity: Identity, **settings: Any) -> TlsContext:
    return TlsContext(
        ca=authority.certificate.read_bytes(),
        certificate=identity.both.read_bytes(),
        server_side=True,
        **settings,
    )


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_clients_show_what_is_asked_of_them(
    stage: TlsStage, authority: CertificateAuthority, shown: bool, client_auth: str
) -> None:
    server = _server(authority, stage.identity, client_auth=client_auth)
    client = _client(authority, authority.issue("client") if shown else None)
    channel, peer = stage.accept(server, client)
    if client_auth == "required" and not shown:
        gone = stage.end_of(channel)
        assert (gone.reason, gone.tls_verify) == ("TLS", 0)
        assert "peer did not return a certificate" in gone.text
        return
    stage.until(lambda: peer.is_open and channel in stage.loopback.connected)
    assert stage.exchange(channel, peer, b"hello") == b"hello"


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_client_of_another_authority_is_refused(
    stage: TlsStage, authority: CertificateAuthority, tmp_path: Path, client_auth: str
) -> None:
    other = CertificateAuthority(tmp_path, "another authority").issue("stranger")
    server = _server(authority, stage.identity, client_auth=client_auth)
    channel, _ = stage.accept(server, _client(authority, other))
    gone = stage.end_of(channel)
    assert (gone.reason, gone.tls_verify) == ("TLS", UNKNOWN_ISSUER)
    assert "subject=/CN=stranger" in gone.text


def test_a_client_is_spared_a_second_handshake(
    stage: TlsStage, authority: CertificateAuthority
) -> None:
    server = _server(authority, stage.identity, client_auth="required")
    client = TlsContext(
        ca=authority.certificate.read_bytes(), certificate=stage.identity.both.read_bytes()
    )
    resumed = []
    for _ in range(2):
        channel = stage.loopback.selector.connect(
            stage.loopback.address, tls=client, server_name="localhost"
        )
        accepted, _ = stage.loopback.listener.accept()
        other = stage.loopback.selector.register(accepted.detach(), tls=server)
        stage.until(lambda: {channel, other} <= set(stage.loopback.connected))  # noqa: B023
        stage.loopback.selector.send(other, [b"\0\0\0\1x"])
        stage.until(lambda: bool(stage.loopback.received[channel]))  # noqa: B023
        resumed.append(stage.loopback.selector.is_resumed(channel))
    assert resumed == [False, True]


def test_plain_text_is_answered_by_an_alert(
    stage: TlsStage, authority: CertificateAuthority
) -> None:
    server = _server(authority, stage.identity)
    channel, peer = stage.accept(server, _client(authority))
    stage.peers.remove(peer)
    peer.connection.setblocking(True)
    peer.connection.sendall(b"\0\0\0\x14\0\x12\0\3\0\0\0\0" + bytes(12))
    gone = stage.end_of(channel)
    assert (gone.reason, gone.text) == ("TLS", "reason=wrong version number\nverified=\n")
    assert peer.connection.recv(100) == b"\x15\3\3\0\2\2\x46"


@pytest.mark.parametrize(
    ("settings", "part"),
    [({"client_auth": "sometimes"}, "client_auth"), ({"client_auth": "required"}, "ca")],
)
def test_a_server_says_what_it_lacks(
    identity: Identity, settings: dict[str, Any], part: str
) -> None:
    error = _wrong(certificate=identity.both.read_bytes(), server_side=True, **settings)
    assert error.part == part


def test_a_forked_child_leaves_the_parents_connection_alone(
    stage: TlsStage, authority: CertificateAuthority
) -> None:
    kept = [TlsContext(ca=authority.certificate.read_bytes())]
    channel, peer = stage.open(client=kept[0])

    def let_go() -> str:
        stage.loopback.selector.abandon()
        kept.clear()
        gc.collect()
        return "done"

    assert Child(let_go).result() == "done"
    assert stage.exchange(channel, peer, b"still ours") == b"still ours"
    assert not peer.said_goodbye
