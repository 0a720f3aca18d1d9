"""Mechanisms: which SASL mechanisms a broker offers, and who may use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastprod.broker.network.sasl.bearer_token import TokenValidator
from fastprod.broker.network.sasl.mechanism import ServerMechanism
from fastprod.broker.network.sasl.oauthbearer import OAuthBearer
from fastprod.broker.network.sasl.plain import Plain
from fastprod.broker.network.sasl.scram import Scram
from fastprod.broker.network.sasl.users import PASSWORD_MECHANISMS, PLAIN, Users
from fastprod.errors import ConfigError

OAUTHBEARER: Final = "OAUTHBEARER"
ALL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER)


class Mechanisms:
    """The SASL mechanisms of a listener. Any thread.

    Args:
        names: those that are offered (`sasl.enabled.mechanisms`), of ALL_MECHANISMS.
        users: of the mechanisms with passwords.
        validator: of OAUTHBEARER's tokens.

    Raises:
        ConfigError: there is no such mechanism, none at all, or OAUTHBEARER without a validator.

    Attributes:
        names: those that are offered, in this order.
    """

    def __init__(
        self, names: Iterable[str], users: Users, validator: TokenValidator | None = None
    ) -> None:
        self.names = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
        unknown = [each for each in self.names if each not in ALL_MECHANISMS]
        if unknown or not self.names:
            raise ConfigError(
                f"sasl_mechanisms is {self.names!r}; there are {', '.join(ALL_MECHANISMS)}",
                key="sasl_mechanisms",
            )
        if OAUTHBEARER in self.names and validator is None:
            raise ConfigError(
                "sasl_mechanisms has OAUTHBEARER; say by oauth_validator who may come in",
                key="oauth_validator",
            )
        self._users = users
        self._validator = validator

    def server(self, name: str) -> ServerMechanism | None:
        """A new exchange; None: the mechanism is not offered."""
        if name not in self.names:
            return None
        if name == PLAIN:
            return Plain(self._users)
        if name == OAUTHBEARER:
            assert self._validator is not None
            return OAuthBearer(self._validator)
        return Scram(name, self._users)
