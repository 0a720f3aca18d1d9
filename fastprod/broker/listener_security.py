"""Whether the clients of a broker must use TLS, a name and a password, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastprod.errors import ConfigError

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True)
class ListenerSecurity:
    """How clients connect. Immutable, any thread.

    Attributes:
        ssl_context: with the broker's certificate; None: no TLS.
        users: passwords by name, for SASL/PLAIN; None: no authentication.
    """

    ssl_context: ssl.SSLContext | None = None
    users: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def make(
        cls,
        ssl_certfile: str | os.PathLike[str] | None,
        ssl_keyfile: str | os.PathLike[str] | None,
        sasl_users: Mapping[str, str] | None,
    ) -> ListenerSecurity:
        """Check the settings and read the files.

        Args:
            ssl_certfile: certificates in PEM, the broker's own first.
            ssl_keyfile: its key in PEM, without a password; None: it is in `ssl_certfile`.
            sasl_users: passwords by name.

        Raises:
            ConfigError: a file cannot be read, a key without a certificate, or no user.
        """
        return cls(_context(ssl_certfile, ssl_keyfile), _checked(sasl_users))

    @property
    def protocol(self) -> str:
        """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        secured = "PLAINTEXT" if self.ssl_context is None else "SSL"
        return secured if self.users is None else f"SASL_{secured}"


def _context(
    certfile: str | os.PathLike[str] | None, keyfile: str | os.PathLike[str] | None
) -> ssl.SSLContext | None:
    if certfile is None:
        if keyfile is not None:
            raise ConfigError(
                "ssl_keyfile is given without ssl_certfile; give both", key="ssl_keyfile"
            )
        return None
    # Imported only when needed: most brokers do without.
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that ends its direction without TLS's close notice may still wait for an answer.
    context.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    try:
        # With an empty password OpenSSL does not ask the terminal for one.
        context.load_cert_chain(certfile, keyfile, password="")
    except (OSError, ValueError) as error:
        key = "" if keyfile is None else f" with the key {os.fspath(keyfile)}"
        raise ConfigError(
            f"ssl_certfile {os.fspath(certfile)}{key} cannot be used: {error}",
            key="ssl_certfile",
            value=os.fspath(certfile),
        ) from error
    return context


def _checked(users: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if users is None:
        return None
    if not users:
        raise ConfigError("sasl_users has no user, so nobody could connect", key="sasl_users")
    for name, password in users.items():
        for text in (name, password):
            if not isinstance(text, str) or not text or "\0" in text:
                raise ConfigError(
                    "sasl_users: names and passwords are text that is not empty, without NUL",
                    key="sasl_users",
                )
    return dict(users)
