"""ServerCertificate: what a broker shows clients that speak TLS; changed files are read again."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fastprod.errors import ConfigError
from fastprod.security.pem_source import PemSource

if TYPE_CHECKING:
    from fastprod._core.tls.tls_context import TlsContext

_log = logging.getLogger(__name__)

ClientAuth = Literal["none", "requested", "required"]
CLIENT_AUTH: Final = ("none", "requested", "required")
"""What clients show: nothing; a certificate if they have one; a certificate always."""

# The parts of a TlsContext, and the setting that each comes from.
_SETTINGS: Final = {
    "certificate": "ssl_certfile",
    "private_key": "ssl_keyfile",
    "key_password": "ssl_key_password",
    "ca": "ssl_cafile",
}

_State = tuple[tuple[int, int, int] | None, ...]


class CertificateSources(NamedTuple):
    """Where a certificate comes from, and what is asked of clients.

    Attributes:
        certificate: the broker's own, then those of its issuers.
        key: its key; None: it is where the certificate is.
        key_password: of the key; None: it is not encrypted.
        ca: issuers of clients' certificates; None: no client is asked for one.
        client_auth: one of CLIENT_AUTH.
    """

    certificate: PemSource
    key: PemSource | None = None
    key_password: str | None = None
    ca: PemSource | None = None
    client_auth: ClientAuth = "none"

    def __repr__(self) -> str:
        """Without the password."""
        return f"CertificateSources({self.certificate.path}, {self.client_auth})"


class ServerCertificate:
    """The certificate of a broker and what it asks of its clients'. Any thread.

    Args:
        sources: read now, and again when a file among them has changed.

    Raises:
        ConfigError: a file cannot be read, or cannot be used with the others.
    """

    def __init__(self, sources: CertificateSources) -> None:
        self._lock = threading.Lock()
        self._sources = sources
        self._state = _state(sources)
        self._context = _context(sources)

    @property
    def asks_clients(self) -> bool:
        """Whether clients may show certificates of their own."""
        return self._sources.client_auth != "none"

    @property
    def pem(self) -> str:
        """The certificate, as it is now; the key may be there, too."""
        return self._sources.certificate.read().decode("ascii", "replace")

    def replace(self, certificate: PemSource, key: PemSource | None, password: str | None) -> None:
        """Show another certificate to clients that connect from now on.

        Raises:
            ConfigError: it cannot be used; the one before it stays.
        """
        with self._lock:
            self._take(
                self._sources._replace(certificate=certificate, key=key, key_password=password)
            )

    def context(self) -> TlsContext:
        """The context of a new connection.

        Looks at the files, and reads them if they have changed, which blocks for the disk. While
        they cannot be used the ones before stay, and the log says why.
        """
        if _state(self._sources) != self._state:
            with self._lock:
                self._follow()
        return self._context

    def _follow(self) -> None:
        """Read the files that have changed; the lock is held."""
        state = _state(self._sources)
        if state == self._state:
            return
        try:
            self._take(self._sources)
        except ConfigError as error:
            # Told once for each change.
            self._state = state
            _log.warning("the certificate stays as it was: %s", error)

    def _take(self, sources: CertificateSources) -> None:
        state = _state(sources)
        self._context = _context(sources)
        self._sources = sources
        self._state = state


def _state(sources: CertificateSources) -> _State:
    """What changes when a file does."""
    given = (sources.certificate, sources.key, sources.ca)
    return tuple(each.state() for each in given if each is not None)


def _context(sources: CertificateSources) -> TlsContext:
    # Most brokers do without OpenSSL.
    from fastprod._core.tls.tls_context import TlsContext, TlsContextError  # noqa: PLC0415

    if sources.client_auth not in CLIENT_AUTH:
        raise ConfigError(
            f"ssl_client_auth is {sources.client_auth!r}; it can be {', '.join(CLIENT_AUTH)}",
            key="ssl_client_auth",
        )
    password = sources.key_password
    try:
        return TlsContext(
            certificate=sources.certificate.read(),
            private_key=None if sources.key is None else sources.key.read(),
            key_password=None if password is None else password.encode(),
            ca=None if sources.ca is None else sources.ca.read(),
            server_side=True,
            client_auth=sources.client_auth,
        )
    except TlsContextError as error:
        setting = _SETTINGS.get(error.part, "ssl_certfile")
        key = "" if sources.key is None else f" with the key {sources.key.path}"
        what, path = f"ssl_certfile {sources.certificate.path}{key}", sources.certificate.path
        if setting == "ssl_cafile" and sources.ca is not None:
            what, path = f"ssl_cafile {sources.ca.path}", sources.ca.path
        raise ConfigError(f"{what} cannot be used: {error}", key=setting, value=path) from error
