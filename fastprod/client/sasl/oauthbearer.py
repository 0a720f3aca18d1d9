"""OAUTHBEARER: an access token says who we are (RFC 7628; KIP-255, KIP-342; P-G.10.5)."""

from __future__ import annotations

from typing import Final

from fastprod.client.sasl.bearer_token import BearerToken
from fastprod.client.sasl.mechanism import MechanismError

_SEPARATOR: Final = "\x01"
_MOST_SHOWN: Final = 300


class OAuthBearerMechanism:
    """One exchange by OAUTHBEARER; see `Mechanism`.

    Args:
        token: what is sent.
        authorization_id: whom to act as; "": whom the token stands for.
    """

    hint = "check where the token comes from, and its audience, scope and end"
    may_block = False

    def __init__(self, token: BearerToken, authorization_id: str = "") -> None:
        self.token = token
        self._authorization_id = authorization_id
        self._refusal = ""
        of = f" of {token.principal!r}" if token.principal else ""
        self.user = f"the token{of}"
        self.secrets = (token.value.reveal(),)
        self.is_done = False

    def initial(self) -> bytes:
        """The token and its extensions."""
        escaped = self._authorization_id.replace("=", "=3D").replace(",", "=2C")
        header = f"n,a={escaped}," if escaped else "n,,"
        fields = [header, f"auth=Bearer {self.token.value.reveal()}"]
        fields += [f"{name}={value}" for name, value in self.token.extensions.items()]
        return (_SEPARATOR.join(fields) + 2 * _SEPARATOR).encode()

    def next(self, challenge: bytes) -> bytes | None:
        """Nothing if the broker accepts it; else it has to be told that we heard why not."""
        if self._refusal:
            raise MechanismError(f"the broker refused the token: {self._refusal}")
        if challenge:
            self._refusal = challenge[:_MOST_SHOWN].decode("utf-8", "replace")
            return _SEPARATOR.encode()
        self.is_done = True
        return None

    @property
    def refusal(self) -> str:
        """The broker's JSON about a token that it does not accept; "": it did not object."""
        return self._refusal
