"""SCRAM-SHA-256 and SCRAM-SHA-512: a proof of the password, which stays with the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError
from fastprod.broker.network.sasl.plain import OTHER_AUTHORIZATION_ID
from fastprod.broker.network.sasl.users import Users

if TYPE_CHECKING:
    from fastprod.security.scram import ScramServer

_LEAST_ITERATIONS: Final = 4096


class Scram:
    """The broker's side of SCRAM; see `ServerMechanism`.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        users: who there is.
    """

    expires_ms: int | None = None

    def __init__(self, mechanism: str, users: Users) -> None:
        self._mechanism = mechanism
        self._users = users
        self._exchange: ScramServer | None = None
        self.is_done = False
        self.user = ""

    def next(self, token: bytes) -> bytes:
        """Take the client's first message, then its last one."""
        # It brings 4 MB of OpenSSL, which most brokers do without.
        from fastprod.security.scram import ScramError, ScramServer  # noqa: PLC0415

        try:
            if self._exchange is None:
                self._exchange = ScramServer(self._mechanism)
                return self._first(self._exchange, token)
            if self.is_done:
                raise InvalidCredentialsError
            answer = self._exchange.final(token)
        except ScramError:
            raise InvalidCredentialsError from None
        self.user = self._exchange.username
        self.is_done = True
        return answer

    def _first(self, exchange: ScramServer, token: bytes) -> bytes:
        name = exchange.read_first(token)
        credentials = self._users.scram(name, self._mechanism)
        if credentials is None or credentials.iterations < _LEAST_ITERATIONS:
            raise InvalidCredentialsError
        if exchange.authorization_id not in ("", name):
            raise InvalidCredentialsError(OTHER_AUTHORIZATION_ID)
        return exchange.first(credentials)
