"""Admission: how the clients of a listener come in, by TLS, SASL, both or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastprod.broker.network.connection import Connection
from fastprod.broker.network.sasl.authenticator import SaslAuthenticator
from fastprod.broker.network.tls.peer_name import subject_of
from fastprod.broker.network.tls.server_certificate import ServerCertificate

if TYPE_CHECKING:
    from fastprod._core.tls.tls_context import TlsContext


class Admission:
    """What a listener asks of its clients. Any thread.

    Args:
        certificate: clients speak TLS, and are shown this one; None: they do not.
        new_authenticator: makes the authenticator of a connection; None: there is no SASL.

    Attributes:
        names_by_certificate: whether a certificate says who a client is; SASL goes before it.
    """

    def __init__(
        self,
        certificate: ServerCertificate | None = None,
        new_authenticator: Callable[[Connection], SaslAuthenticator] | None = None,
    ) -> None:
        self._certificate = certificate
        self._new_authenticator = new_authenticator
        self.names_by_certificate = (
            certificate is not None and certificate.asks_clients and new_authenticator is None
        )

    def tls_context(self) -> TlsContext | None:
        """The context of a new connection; None: no TLS."""
        return None if self._certificate is None else self._certificate.context()

    def authenticator(self, connection: Connection) -> SaslAuthenticator | None:
        """The authenticator of a new connection; None: no SASL."""
        return None if self._new_authenticator is None else self._new_authenticator(connection)

    def name(self, connection: Connection, certificate: bytes | None) -> None:
        """Call a client by its certificate in DER; without one it stays anonymous.

        Raises:
            ValueError: the certificate has no name that can be read.
        """
        if certificate is not None:
            connection.principal = f"User:{subject_of(certificate)}"
        connection.is_named = True
