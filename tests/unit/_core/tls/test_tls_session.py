"""Sessions: whom a certificate must name, what is asked for, and tickets that are used again."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from fastprod._core.tls.tls_context import TlsContext
from support.security.authority import CertificateAuthority
from support.security.tls_peer import server_context
from support.security.tls_stage import TlsStage

HOST_MISMATCH = 62
IP_MISMATCH = 64


@pytest.mark.parametrize(
    ("name", "hosts", "asked"),
    [
        ("cn", ["good.example"], "good.example"),
        ("cn", ["good.example"], "GOOD.example"),
        ("cn", ["good.example"], "good.example."),
        ("cn", ["a.example", "*.b.example"], "x.b.example"),
        ("cn.example", [], "cn.example"),
        ("cn", ["127.0.0.1"], "127.0.0.1"),
        ("cn", ["::1"], "::1"),
        ("cn", ["::1"], "0:0:0:0:0:0:0:1"),
    ],
)
def test_names_that_fit(
    stage: TlsStage, authority: CertificateAuthority, name: str, hosts: list[str], asked: str
) -> None:
    channel, peer = stage.open(server_context(authority.issue(name, hosts)), host=asked)
    assert stage.exchange(channel, peer, b"hello") == b"hello"


@pytest.mark.parametrize(
    ("name", "hosts", "asked", "verify"),
    [
        ("cn.example", ["good.example"], "cn.example", HOST_MISMATCH),
        ("cn", ["*.b.example"], "b.example", HOST_MISMATCH),
        ("cn", ["*.b.example"], "x.y.b.example", HOST_MISMATCH),
        ("cn", ["b*.example"], "bad.example", HOST_MISMATCH),
        ("127.0.0.1", [], "127.0.0.1", IP_MISMATCH),
        ("cn", ["localhost"], "127.0.0.1", IP_MISMATCH),
        ("cn", ["10.0.0.1"], "10.0.0.2", IP_MISMATCH),
    ],
)
def test_names_that_do_not_fit(
    stage: TlsStage,
    authority: CertificateAuthority,
    name: str,
    hosts: list[str],
    asked: str,
    verify: int,
) -> None:
    channel, _ = stage.start(server_context(authority.issue(name, hosts)), host=asked)
    gone = stage.end_of(channel)
    assert (gone.reason, gone.tls_verify) == ("TLS", verify)
    assert "verified=" in gone.text


@pytest.mark.parametrize(("settings", "host"), [({"check_host_name": False}, "other"), ({}, "")])
def test_a_name_is_checked_unless_that_is_off(
    stage: TlsStage, authority: CertificateAuthority, settings: dict[str, Any], host: str
) -> None:
    context = TlsContext(ca=authority.certificate.read_bytes(), **settings)
    if host:
        channel, peer = stage.open(client=context, host=host)
        assert stage.exchange(channel, peer, b"hello") == b"hello"
    else:
        with pytest.raises(MemoryError):
            stage.start(client=context, host=host)


@pytest.mark.parametrize(
    ("host", "asked"), [("good.example", "good.example"), ("127.0.0.1", None), ("::1", None)]
)
def test_a_name_is_asked_for_and_an_address_is_not(
    stage: TlsStage, authority: CertificateAuthority, host: str, asked: str | None
) -> None:
    """SNI (RFC 6066)."""
    server = server_context(authority.issue("named", [host]))
    heard: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: heard.append(name)
    stage.open(server, host=host)
    assert heard == [asked]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_ticket_is_used_by_the_next_connection(stage: TlsStage, version: ssl.TLSVersion) -> None:
    server = server_context(stage.identity, version)
    reused = []
    for _ in range(3):
        channel, peer = stage.open(server)
        assert stage.exchange(channel, peer, b"hello") == b"hello"
        reused.append((peer.tls.session_reused, stage.loopback.selector.is_resumed(channel)))
        stage.loopback.selector.close_channel(channel)
    assert reused == [(False, False), (True, True), (True, True)]


@pytest.mark.parametrize("what", ["host", "context"])
def test_a_ticket_is_for_its_host_and_its_context(
    stage: TlsStage, authority: CertificateAuthority, what: str
) -> None:
    server = server_context(stage.identity)
    channel, peer = stage.open(server)
    assert stage.exchange(channel, peer, b"hello") == b"hello"
    if what == "host":
        channel, peer = stage.open(server, host="127.0.0.1")
    else:
        another = TlsContext(ca=authority.certificate.read_bytes())
        channel, peer = stage.open(server, client=another)
    assert stage.exchange(channel, peer, b"hello") == b"hello"
    assert not peer.tls.session_reused


def test_a_lost_connections_ticket_is_still_good(stage: TlsStage) -> None:
    server = server_context(stage.identity)
    channel, peer = stage.open(server)
    assert stage.exchange(channel, peer, b"hello") == b"hello"
    peer.connection.close()
    stage.peers.remove(peer)
    assert stage.end_of(channel).reason == "REMOTE"
    channel, peer = stage.open(server)
    assert peer.tls.session_reused
