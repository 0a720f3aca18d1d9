"""Mechanisms: which are offered, and which cannot be."""

from __future__ import annotations

import pytest

from fastprod.broker.network.sasl.mechanisms import ALL_MECHANISMS, Mechanisms
from fastprod.broker.network.sasl.oauthbearer import OAuthBearer
from fastprod.broker.network.sasl.plain import Plain
from fastprod.broker.network.sasl.scram import Scram
from fastprod.broker.network.sasl.users import Users
from fastprod.errors import ConfigError


def test_each_exchange_is_of_the_mechanism_that_was_asked_for() -> None:
    offered = Mechanisms(ALL_MECHANISMS, Users(), lambda token: None)
    kinds = [type(offered.server(name)) for name in offered.names]
    assert kinds == [Plain, Scram, Scram, OAuthBearer]
    assert offered.server("PLAIN") is not offered.server("PLAIN")
    assert offered.server("GSSAPI") is None
    assert Mechanisms("PLAIN", Users()).server("SCRAM-SHA-256") is None


@pytest.mark.parametrize("names", [[], ["GSSAPI"], ["plain"], ["PLAIN", "X"]])
def test_what_is_not_there_cannot_be_offered(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="sasl_mechanisms"):
        Mechanisms(names, Users())


def test_bearer_tokens_need_a_validator() -> None:
    with pytest.raises(ConfigError, match="oauth_validator"):
        Mechanisms(["OAUTHBEARER"], Users())
