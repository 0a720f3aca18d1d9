"""OAUTHBEARER: the message, and a broker that objects."""

from __future__ import annotations

import pytest

from fastprod.client.sasl.bearer_token import read_token
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism


def mechanism(authorization_id: str = "", **extensions: str) -> OAuthBearerMechanism:
    return OAuthBearerMechanism(read_token("hush.hush", 0.0, extensions), authorization_id)


def test_the_message_of_the_rfc() -> None:
    """P-G.10.5"""
    assert mechanism().initial() == b"n,,\x01auth=Bearer hush.hush\x01\x01"
    with_all = mechanism("a=b,c", traceId="7", other="x y").initial()
    assert with_all == (
        b"n,a=a=3Db=2Cc,\x01auth=Bearer hush.hush\x01traceId=7\x01other=x y\x01\x01"
    )


def test_it_is_done_when_the_broker_says_nothing() -> None:
    accepted = mechanism()
    assert accepted.next(b"") is None
    assert accepted.is_done


def test_a_refusal_is_acknowledged_and_then_told() -> None:
    """P-G.10.5: a single 0x01; then the authentication fails with that JSON."""
    refused = mechanism()
    assert refused.next(b'{"status":"invalid_token"}') == b"\x01"
    assert refused.refusal == '{"status":"invalid_token"}'
    with pytest.raises(MechanismError, match="invalid_token"):
        refused.next(b"")
    assert not refused.is_done
    assert refused.secrets == ("hush.hush",)
