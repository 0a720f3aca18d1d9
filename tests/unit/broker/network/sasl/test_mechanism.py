"""What a client is told when a mechanism refuses it."""

from __future__ import annotations

from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError


def test_a_refusal_has_a_text_for_the_client_or_none() -> None:
    assert InvalidCredentialsError("no").told == "no"
    assert str(InvalidCredentialsError("no")) == "no"
    assert InvalidCredentialsError().told is None
