"""Fixtures of TLS: an authority, a good certificate, and connections to Python's own TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastprod._core.tls.tls_context import TlsContext
from support.oracle.loopback import Loopback, open_descriptor_count
from support.security.authority import CertificateAuthority, Identity
from support.security.tls_stage import TlsStage


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def identity(authority: CertificateAuthority) -> Identity:
    return authority.issue("good")


@pytest.fixture
def trusting(authority: CertificateAuthority) -> TlsContext:
    """A client's context that trusts the authority."""
    return TlsContext(ca=Path(authority.certificate).read_bytes())


@pytest.fixture(params=[False, True], ids=["epoll", "poll"])
def stage(
    request: pytest.FixtureRequest, identity: Identity, trusting: TlsContext
) -> Iterator[TlsStage]:
    """Its end is also the check that no descriptor leaks, for every test here."""
    before = open_descriptor_count()
    with Loopback(bool(request.param)) as loopback:
        yield TlsStage(loopback, identity, trusting)
    assert open_descriptor_count() == before
