"""What the log says of a client that made no TLS connection."""

from __future__ import annotations

import pytest

from fastprod.broker.network.tls.tls_failure import tls_failure


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "reason=wrong version number\nverified=\n",
            "wrong version number - the client does not speak TLS: "
            "set its security.protocol to SSL",
        ),
        (
            "reason=certificate verify failed\nverified=self-signed certificate\nsubject=/CN=a=b\n",
            "certificate verify failed (self-signed certificate; /CN=a=b) - the client's "
            "certificate is not one that ssl_cafile vouches for",
        ),
        ("reason=something new\nverified=\n", "something new"),
        ("reason=\nverified=\n", "OpenSSL does not say why"),
        ("", "OpenSSL does not say why"),
    ],
)
def test_a_failure_says_why_and_what_to_change(text: str, said: str) -> None:
    assert tls_failure(text) == said
