"""PLAIN: one message of three parts."""

from __future__ import annotations

import pytest

from fastprod.client.sasl.mechanism import MechanismError
from fastprod.client.sasl.plain import PlainMechanism


def test_the_one_message() -> None:
    """P-G.10.3"""
    mechanism = PlainMechanism("ad\u00e4", "secret, =", "other")
    assert mechanism.initial() == "other\0ad\u00e4\0secret, =".encode()
    assert not mechanism.is_done
    assert mechanism.next(b"") is None
    assert mechanism.is_done
    assert PlainMechanism("a", "b").initial() == b"\0a\0b"


@pytest.mark.parametrize(
    ("user", "password", "words"),
    [("", "x", "needs a user name"), ("x", "", "and a password"), ("x", "y\0", "NUL")],
)
def test_what_cannot_be_sent(user: str, password: str, words: str) -> None:
    """P-G.10.3: without user or password nothing is tried."""
    with pytest.raises(MechanismError, match=words):
        PlainMechanism(user, password)
