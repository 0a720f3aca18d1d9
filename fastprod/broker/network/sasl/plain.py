"""PLAIN: a name and a password in one token (RFC 4616)."""

from __future__ import annotations

from typing import Final

from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError
from fastprod.broker.network.sasl.users import Users

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_WRONG: Final = "Authentication failed: Invalid username or password"


class Plain:
    """The broker's side of PLAIN; see `ServerMechanism`.

    Args:
        users: who there is.
    """

    expires_ms: int | None = None

    def __init__(self, users: Users) -> None:
        self._users = users
        self.is_done = False
        self.user = ""

    def next(self, token: bytes) -> bytes:
        """Take the one token; the answer is empty."""
        # It brings 4 MB of OpenSSL, which most brokers do without.
        import hmac  # noqa: PLC0415

        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:
            raise InvalidCredentialsError from None
        if not user or not password:
            raise InvalidCredentialsError
        known = self._users.password(user)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            raise InvalidCredentialsError(_WRONG)
        if authorization_id not in ("", user):
            raise InvalidCredentialsError(OTHER_AUTHORIZATION_ID)
        self.user = user
        self.is_done = True
        return b""
