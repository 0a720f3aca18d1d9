"""SCRAM: the password is proved and not sent, and the broker has to prove itself too (KIP-84)."""

from __future__ import annotations

from collections.abc import Mapping

from fastprod.client.sasl.mechanism import MechanismError
from fastprod.security.scram import Salter, ScramClient, ScramError


class ScramMechanism:
    """One exchange by SCRAM-SHA-256 or SCRAM-SHA-512; see `Mechanism`.

    Args:
        name: the mechanism's.
        username: of the user, or the id of a delegation token.
        password: the user's, or the token's HMAC.
        authorization_id: whom to act as; "": the user itself.
        extensions: such as ``{"tokenauth": "true"}``, for a delegation token (KIP-48).
        salter: of this mechanism and password, shared by the exchanges; None: this one's alone.

    Raises:
        MechanismError: something cannot be sent, or is missing.
    """

    hint = "check sasl_username, sasl_password and sasl_mechanism"
    may_block = False

    def __init__(
        self,
        name: str,
        username: str,
        password: str,
        authorization_id: str = "",
        extensions: Mapping[str, str] | None = None,
        salter: Salter | None = None,
    ) -> None:
        if not username or not password:
            raise MechanismError(
                f"{name} needs a user name and a password: set sasl_username and sasl_password"
            )
        try:
            self._client = ScramClient(
                name,
                username,
                password,
                authorization_id=authorization_id,
                extensions=extensions,
                salter=salter,
            )
        except ScramError as error:
            raise MechanismError(str(error)) from None
        self._has_proved = False
        self.user = f"user {username!r}"
        self.secrets = (password,)
        self.is_done = False

    def initial(self) -> bytes:
        """The user's name and a nonce."""
        return self._client.first()

    def next(self, challenge: bytes) -> bytes | None:
        """The proof; then the broker's is checked."""
        try:
            if not self._has_proved:
                self._has_proved = True
                return self._client.final(challenge)
            self._client.verify(challenge)
        except ScramError as error:
            raise MechanismError(str(error)) from None
        self.is_done = True
        return None
