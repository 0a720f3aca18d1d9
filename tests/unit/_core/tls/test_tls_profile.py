"""What connections share outlives the context that it was made by."""

from __future__ import annotations

import gc

from fastprod._core.tls.tls_context import TlsContext
from support.security.authority import CertificateAuthority
from support.security.tls_stage import TlsStage


def test_a_connection_outlives_its_context(
    stage: TlsStage, authority: CertificateAuthority
) -> None:
    context = TlsContext(ca=authority.certificate.read_bytes())
    channel, peer = stage.open(client=context)
    del context
    gc.collect()
    assert stage.exchange(channel, peer, b"still here") == b"still here"
