"""SaslHandshake and SaslAuthenticate on a listener that asks nobody."""

from __future__ import annotations

import pytest

from fastprod.error_codes import ILLEGAL_SASL_STATE
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeRequest
from support.broker.world import BrokerWorld


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_is_out_of_place(version: int) -> None:
    with BrokerWorld() as world:
        answer = world.post(
            "SaslHandshake", version, SaslHandshakeRequest(mechanism="PLAIN")
        ).answer
    assert answer.error_code == ILLEGAL_SASL_STATE
    assert answer.mechanisms == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_is_out_of_place(version: int) -> None:
    with BrokerWorld() as world:
        asked = SaslAuthenticateRequest(auth_bytes=b"\0a\0b")
        answer = world.post("SaslAuthenticate", version, asked).answer
    assert answer.error_code == ILLEGAL_SASL_STATE
    assert "SaslHandshake" in answer.error_message
