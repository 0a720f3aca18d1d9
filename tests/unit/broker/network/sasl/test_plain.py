"""PLAIN: one token with name and password (RFC 4616)."""

from __future__ import annotations

import pytest

from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError
from fastprod.broker.network.sasl.plain import Plain
from fastprod.broker.network.sasl.users import Users

USERS = Users({"ada": "lovelace"})


@pytest.mark.parametrize("token", [b"\0ada\0lovelace", b"ada\0ada\0lovelace"])
def test_a_right_token_is_all(token: bytes) -> None:
    plain = Plain(USERS)
    assert plain.next(token) == b""
    assert (plain.is_done, plain.user, plain.expires_ms) == (True, "ada", None)


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0ada\0byron", "Authentication failed: Invalid username or password"),
        (b"\0bob\0lovelace", "Authentication failed: Invalid username or password"),
        (
            b"bob\0ada\0lovelace",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"\0ada\0", None),
        (b"\0\0lovelace", None),
        (b"ada lovelace", None),
        (b"\0ada\0lovelace\0", None),
        (b"\0ada\0\xff", None),
    ],
)
def test_a_wrong_token_is_refused_in_kafkas_words(token: bytes, told: str | None) -> None:
    """None: Kafka tells no more than that the credentials are invalid."""
    plain = Plain(USERS)
    with pytest.raises(InvalidCredentialsError) as caught:
        plain.next(token)
    assert caught.value.told == told
    assert not plain.is_done
