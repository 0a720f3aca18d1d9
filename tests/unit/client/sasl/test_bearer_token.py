"""BearerToken: what callbacks return, in every form that other clients take."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.client.sasl.bearer_token import UNKNOWN_LIFE_S, BearerToken, read_token
from fastprod.client.sasl.mechanism import MechanismError

NOW_S = 1_800_000_000.0


def jwt(**claims: Any) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()) for each in ({"a": 1}, claims)]
    return ".".join([part.rstrip(b"=").decode() for part in parts] + ["sig"])


@pytest.mark.parametrize(
    "answer",
    [
        jwt(exp=NOW_S + 60, sub="ada"),
        jwt(exp=NOW_S + 60, sub="ada").encode(),
        (jwt(exp=1, sub="ada"), NOW_S + 60),
        (jwt(sub="ada"), NOW_S + 60, None),
        [jwt(), int(NOW_S + 60), "ada", {}],
        (jwt(sub="ada"), (NOW_S + 60) * 1000),
    ],
)
def test_the_forms_that_a_callback_may_return(answer: object) -> None:
    """P-G.10.5: a token, or with its end as confluent-kafka has it, or in ms by mistake."""
    token = read_token(answer, NOW_S)
    assert token.expires_s == pytest.approx(NOW_S + 60)
    assert token.principal == "ada"


def test_an_opaque_token_counts_as_good_for_five_minutes() -> None:
    for opaque in ("abc", "a.b.c", "a.bm8.c", jwt()):
        assert read_token(opaque, NOW_S).expires_s == NOW_S + UNKNOWN_LIFE_S


def test_extensions_come_from_the_settings_and_the_callback() -> None:
    """P-G.10.5, KIP-342"""
    answer = ("abc", NOW_S + 1, "ada", {"b": "2", "c": "3 \t\r\n"})
    found = read_token(answer, NOW_S, {"a": "1", "b": "1"})
    assert found.extensions == {"a": "1", "b": "2", "c": "3 \t\r\n"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "NoneType where a token is due"),
        ((), "tuple where a token is due"),
        (("a", 1, "b", {}, 5), "tuple where a token is due"),
        ("", "an empty text"),
        ((5, NOW_S + 1), "int in the place"),
        ("hush hush", "characters"),
        ("hush\n", "line break"),
        (b"hush\xff", "characters"),
        (("hush", "soon"), "end is str"),
        (("hush", True), "end is bool"),
        (("hush", float("nan")), "no clock has"),
        (("hush", 10**400), "no clock has"),
        (("hush", -(10**400)), "no clock has"),
        (jwt(exp=10**400), "no clock has"),
        (("hush", NOW_S - 90), "expired 90 s ago"),
        (jwt(exp=NOW_S - 7), "expired 7 s ago"),
        (("hush", NOW_S + 1, "", {"auth": "x"}), "'auth' is taken"),
        (("hush", NOW_S + 1, "", {"a1": "x"}), "letters only"),
        (("hush", NOW_S + 1, "", {"a": "\x01"}), "no text in ASCII"),
        (("hush", NOW_S + 1, "", 5), "no mapping"),
    ],
)
def test_what_is_no_token(answer: object, words: str) -> None:
    """P-G.10.5, P-G.10.8: what is wrong is said, and the token is not."""
    with pytest.raises(MechanismError, match=words) as caught:
        read_token(answer, NOW_S)
    assert "hush" not in str(caught.value)


def test_no_repr_shows_the_token() -> None:
    """P-G.10.8"""
    assert "hush" not in repr(read_token("hush", NOW_S))


@given(st.binary(max_size=60))
def test_any_claims_are_read_or_passed_over(payload: bytes) -> None:
    encoded = base64.urlsafe_b64encode(payload).rstrip(b"=").decode()
    try:
        found = read_token(f"a.{encoded}.c", NOW_S)
    except MechanismError:
        return
    assert isinstance(found, BearerToken)
