"""OAUTHBEARER: tokens that a validator knows (RFC 7628, KIP-255)."""

from __future__ import annotations

import logging

import pytest

from fastprod.broker.network.sasl.bearer_token import BearerToken, TokenValidator
from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError
from fastprod.broker.network.sasl.oauthbearer import OAuthBearer

TOKEN = "abc.DEF-1_2~+/=="
REFUSED = b'{"status":"invalid_token"}'


def first(token: str = TOKEN, authorization: str = "", more: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {token}\x01{more}\x01".encode()


@pytest.mark.parametrize(
    ("validator", "expires_ms"),
    [(lambda token: BearerToken("ada", 5), 5), (lambda token: "ada", None)],
)
def test_a_validator_says_whose_token_it_is(
    validator: TokenValidator, expires_ms: int | None
) -> None:
    for message in (first(), first(authorization="a=ada"), first(more="traceId=7\x01")):
        bearer = OAuthBearer(validator)
        assert bearer.next(message) == b""
        assert (bearer.is_done, bearer.user, bearer.expires_ms) == (True, "ada", expires_ms)


def test_the_validator_gets_the_token_as_it_is() -> None:
    seen: list[str] = []
    OAuthBearer(seen.append).next(first())
    assert seen == [TOKEN]


@pytest.mark.parametrize("answer", [b"\x01", b"n,,\x01auth=Bearer x\x01\x01", b""])
def test_a_refused_token_is_told_first(answer: bytes) -> None:
    bearer = OAuthBearer(lambda token: None)
    assert bearer.next(first()) == REFUSED
    assert not bearer.is_done
    with pytest.raises(InvalidCredentialsError) as caught:
        bearer.next(answer)
    assert caught.value.told == (REFUSED.decode() if answer == b"\x01" else None)


def test_a_validator_that_raises_refuses_and_shows_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def whose(token: str) -> str:
        raise ValueError(f"{token} is broken")

    with caplog.at_level(logging.DEBUG):
        assert OAuthBearer(whose).next(first()) == REFUSED
    assert "ValueError" in caplog.text
    assert TOKEN not in caplog.text


def test_who_acts_for_another_is_refused() -> None:
    with pytest.raises(InvalidCredentialsError, match=r"\(bob\) that is different .* \(ada\)"):
        OAuthBearer(lambda token: "ada").next(first(authorization="a=bob"))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01user=ada\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01a1=x\x01auth=Bearer abc\x01\x01",
        b"p=x,,\x01auth=Bearer abc\x01\x01",
    ],
)
def test_a_damaged_message_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidCredentialsError) as caught:
        OAuthBearer(lambda token: "ada").next(message)
    assert caught.value.told is None
