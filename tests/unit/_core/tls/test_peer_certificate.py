"""What is said of a certificate that was refused."""

from __future__ import annotations

import pytest

from support.security.authority import CertificateAuthority
from support.security.tls_peer import server_context
from support.security.tls_stage import TlsStage


def _said(stage: TlsStage, authority: CertificateAuthority, name: str, hosts: list[str]) -> str:
    channel, _ = stage.start(server_context(authority.issue(name, hosts)), host="wanted.example")
    return stage.end_of(channel).text


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (["a.example", "*.b.example"], "a.example, *.b.example"),
        (["10.1.2.3", "2001:db8::7", "c.example"], "10.1.2.3, 2001:db8::7, c.example"),
        ([], "somebody else"),
    ],
)
def test_its_names(
    stage: TlsStage, authority: CertificateAuthority, hosts: list[str], names: str
) -> None:
    text = _said(stage, authority, "somebody else", hosts)
    assert f"\nnames={names}\n" in text
    assert "\nsubject=/CN=somebody else\n" in text
    assert "\nissuer=/CN=test authority\n" in text
    assert text.count(" UTC\n") == 2


def test_more_names_than_anybody_reads_are_cut(
    stage: TlsStage, authority: CertificateAuthority
) -> None:
    hosts = [f"host-{number}.example" for number in range(500)]
    text = _said(stage, authority, "everybody", hosts)
    assert "host-19.example" in text
    assert "host-20.example" not in text


def test_the_peer_writes_no_lines_of_its_own(
    stage: TlsStage, authority: CertificateAuthority
) -> None:
    text = _said(stage, authority, "x\nverified=ok\nnames=evil", [])
    assert len(text.splitlines()) == 7
    assert "names=x?verified=ok?names=evil" in text
