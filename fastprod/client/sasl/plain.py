"""PLAIN: user name and password as they are (RFC 4616, P-G.10.3)."""

from __future__ import annotations

from fastprod.client.sasl.mechanism import MechanismError


class PlainMechanism:
    """One exchange by PLAIN; see `Mechanism`.

    Args:
        username: of the user.
        password: the user's.
        authorization_id: whom to act as; "": the user itself.

    Raises:
        MechanismError: a name or the password cannot be sent, or is missing.
    """

    hint = "check sasl_username and sasl_password"
    may_block = False

    def __init__(self, username: str, password: str, authorization_id: str = "") -> None:
        if not username or not password:
            raise MechanismError(
                "PLAIN needs a user name and a password: set sasl_username and sasl_password"
            )
        if "\0" in username + password + authorization_id:
            raise MechanismError("PLAIN cannot send a user name or password with a NUL in it")
        self._message = b"\0".join(
            [text.encode() for text in (authorization_id, username, password)]
        )
        self.user = f"user {username!r}"
        self.secrets = (password,)
        self.is_done = False

    def initial(self) -> bytes:
        """The one message."""
        return self._message

    def next(self, challenge: bytes) -> bytes | None:
        """The broker accepted it."""
        self.is_done = True
        return None
