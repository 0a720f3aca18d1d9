"""LoginError: whether a second try at once may help."""

from __future__ import annotations

from fastprod.client.sasl.login_error import LoginError


def test_a_failure_lasts_unless_it_is_said_otherwise() -> None:
    assert LoginError("no").is_lasting
    assert not LoginError("busy", is_lasting=False).is_lasting
    assert str(LoginError("no")) == "no"
