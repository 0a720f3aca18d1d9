"""TlsContext: what connections by TLS have in common, made from bytes."""

from typing import Final, Literal, final

from fastprod._core.io.layer import Layer

class TlsContextError(ValueError):
    """Something that a context was to be made of cannot be used.

    Attributes:
        part: the parameter of `TlsContext` that is wrong.
    """

    part: str

    def __init__(self, part: str, text: str) -> None: ...

TLS_VERSIONS: Final[tuple[str, ...]]
"""Those there are, oldest first."""

@final
class TlsContext(Layer):
    """Certificates, keys and limits of TLS connections. Immutable; any thread.

    Every certificate and key is in PEM. Connections keep what they need of it, so it may go before
    them. OpenSSL is that of Python's own ``ssl`` module, which is not imported.

    Args:
        ca: one or more certificates to trust; None: the system's, by OpenSSL's own rules
            (SSL_CERT_FILE, SSL_CERT_DIR).
        certificate: our own, then those up to its root, if any. None: we have none.
        private_key: of our certificate; None: it is in `certificate` as well.
        key_password: for an encrypted key, or for `pkcs12`.
        pkcs12: our key and certificates in DER, instead of `certificate` and `private_key`.
        crl: revocation lists; the peer's certificate must be in none, and its issuer must have one.
        verify: whether a server's certificate is checked at all.
        check_host_name: whether it must name the host that was asked for (RFC 6125: the names of
            subjectAltName, and the common name only if there is none of them).
        min_version: the oldest version of TLS, of `TLS_VERSIONS`.
        max_version: the newest.
        ciphers: for TLS 1.2, as in ``openssl ciphers``; None: OpenSSL's choice.
        cipher_suites: for TLS 1.3, by their names with colons between them.
        server_side: for connections that others open to us.
        client_auth: of those: "none", "requested" (a certificate that is sent must be good) or
            "required".
        strict: whether a server's certificates are checked as X509_V_FLAG_X509_STRICT does.
        partial_chain: whether a server's chain may end at one of `ca` that is not self-signed, as
            in Java.

    Raises:
        TlsContextError: what of it cannot be used, and why.
        ImportError: there is no OpenSSL 1.1.1 or later.
        MemoryError: there is no memory for it.
    """

    def __init__(
        self,
        *,
        ca: bytes | None = None,
        certificate: bytes | None = None,
        private_key: bytes | None = None,
        key_password: bytes | None = None,
        pkcs12: bytes | None = None,
        crl: bytes | None = None,
        verify: bool = True,
        check_host_name: bool = True,
        min_version: str = "TLSv1.2",
        max_version: str = "TLSv1.3",
        ciphers: str | None = None,
        cipher_suites: str | None = None,
        server_side: bool = False,
        client_auth: Literal["none", "requested", "required"] = "none",
        strict: bool = False,
        partial_chain: bool = True,
    ) -> None: ...
    @property
    def server_side(self) -> bool:
        """Whether it is for connections that others open to us."""
