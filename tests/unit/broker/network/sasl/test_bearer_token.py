"""Tokens without a signature: what they must say."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fastprod.broker.network.sasl.bearer_token import BearerToken, UnsecuredTokens
from fastprod.broker.threads.clock import FakeClock


def token(claims: object, header: object = None, signature: str = "") -> str:
    parts = [{"alg": "none"} if header is None else header, claims]
    return ".".join([*(_encoded(json.dumps(part)) for part in parts), signature])


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def now_s(clock: FakeClock) -> float:
    return clock.time_ms() / 1000


def test_a_token_holds_until_it_expires() -> None:
    clock = FakeClock()
    whose = UnsecuredTokens(clock)
    made = token({"sub": "ada", "iat": now_s(clock), "exp": now_s(clock) + 2.5})
    assert whose(made) == BearerToken("ada", clock.time_ms() + 2_500)
    clock.advance(2_499)
    assert whose(made) is not None
    clock.advance(1)
    assert whose(made) is None


def test_another_claim_may_have_the_name() -> None:
    clock = FakeClock()
    made = token({"user": "ada", "exp": now_s(clock) + 1})
    assert UnsecuredTokens(clock)(made) is None
    found = UnsecuredTokens(clock, "user")(made)
    assert found is not None
    assert found.principal == "ada"


@pytest.mark.parametrize(
    "change",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"exp": 1e300},
        {"nbf": 1e11},
        {"iat": 1e11},
        {"iat": "then"},
    ],
)
def test_a_token_that_says_less_is_none(change: dict[str, Any]) -> None:
    clock = FakeClock()
    whose = UnsecuredTokens(clock)
    claims = {"sub": "ada", "exp": now_s(clock) + 100}
    assert whose(token(claims)) is not None
    assert whose(token(claims | change)) is None


def test_what_is_no_unsecured_token_is_refused() -> None:
    clock = FakeClock()
    claims = {"sub": "ada", "exp": now_s(clock) + 100}
    for wrong in (
        "",
        "abc",
        "a.b.c",
        "..",
        token(claims, {"alg": "RS256"}),
        token(claims, {}),
        token(claims, signature="abc"),
        token([1]),
        token(claims, "none"),
        f"{_encoded('{')}.{_encoded('{}')}.",
    ):
        assert UnsecuredTokens(clock)(wrong) is None
