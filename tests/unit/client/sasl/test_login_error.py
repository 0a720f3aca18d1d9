"""LoginError: how long callers are kept from hearing of it."""

from __future__ import annotations

from fastprod.client.sasl.login_error import SHORT_PATIENCE_S, LoginError


def test_a_failure_is_told_at_once_unless_it_is_said_otherwise() -> None:
    assert LoginError("no").patience_s == 0.0
    assert LoginError("busy", patience_s=SHORT_PATIENCE_S).patience_s == 0.6
    assert str(LoginError("no")) == "no"
