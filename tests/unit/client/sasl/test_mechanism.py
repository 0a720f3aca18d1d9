"""Mechanism: what is asked of each."""

from __future__ import annotations

import pytest

from fastprod.client.sasl.bearer_token import read_token
from fastprod.client.sasl.mechanism import Mechanism
from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism
from fastprod.client.sasl.plain import PlainMechanism
from fastprod.client.sasl.scram import ScramMechanism

MECHANISMS: list[Mechanism] = [
    PlainMechanism("ada", "hush"),
    ScramMechanism("SCRAM-SHA-256", "ada", "hush"),
    OAuthBearerMechanism(read_token("hush", 0.0)),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_names_are_shown_and_secrets_are_not(mechanism: Mechanism) -> None:
    """P-G.10.8"""
    assert mechanism.user
    assert "check" in mechanism.hint
    assert mechanism.secrets == ("hush",)
    assert not mechanism.is_done
    assert not mechanism.may_block
    assert "hush" not in repr(mechanism) + mechanism.user + mechanism.hint
