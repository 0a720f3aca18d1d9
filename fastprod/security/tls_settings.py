"""TlsSettings: how a client's connections use TLS."""

from __future__ import annotations

from fastprod.frozen import FrozenRecord
from fastprod.security.pem_source import PemSource
from fastprod.security.secret import Secret


class TlsSettings(FrozenRecord):
    """How a client's connections use TLS; plain data, which pickles.

    Attributes:
        ca: certificates that are trusted; None: the system's own.
        certificate: the client's chain, its own certificate first; None: the client has none.
        private_key: the key of the first certificate; may be the same source as `certificate`.
        key_password: of an encrypted `private_key`; None: it is not encrypted.
        crl: certificates that were withdrawn, for each issuer in the chain; None: not asked for.
        verify: whether the broker's certificate must lead to `ca`.
        check_host_name: whether it must be for the host that is connected to; needs `verify`.
        min_version: lowest version of TLS: "TLSv1.2" or "TLSv1.3".
        max_version: highest version of TLS: the same two.
        ciphers: ciphers of TLS 1.2 in OpenSSL's syntax; None: OpenSSL's default.
        cipher_suites: suites of TLS 1.3 as OpenSSL lists them, with ':' between; None: its default.
        strict: whether certificates are checked as X509_V_FLAG_X509_STRICT does.
        partial_chain: whether a certificate in `ca` that did not sign itself ends a chain, too
            (X509_V_FLAG_PARTIAL_CHAIN), as in Java.
    """

    ca: PemSource | None = None
    certificate: PemSource | None = None
    private_key: PemSource | None = None
    key_password: Secret | None = None
    crl: PemSource | None = None
    verify: bool = True
    check_host_name: bool = True
    min_version: str = "TLSv1.2"
    max_version: str = "TLSv1.3"
    ciphers: str | None = None
    cipher_suites: str | None = None
    strict: bool = False
    partial_chain: bool = True
