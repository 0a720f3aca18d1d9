"""Numbers by the system's randomness: within their bounds, and all over them."""

from __future__ import annotations

import os

import pytest

from fastprod.system_random import random_between, random_index, random_seed


def test_numbers_are_within_their_bounds_and_differ() -> None:
    drawn = [random_between(-1.5, 2.5) for _ in range(300)]
    assert -1.5 <= min(drawn) < 0 < 1 < max(drawn) <= 2.5
    assert {random_index(3) for _ in range(300)} == {0, 1, 2}
    assert {random_index(1) for _ in range(3)} == {0}
    seeds = {random_seed() for _ in range(300)}
    assert len(seeds) == 300
    assert max(each.bit_length() for each in seeds) == 63


@pytest.mark.parametrize(("octet", "number", "last"), [(b"\0", 10.0, 0), (b"\xff", 20.0, 5)])
def test_the_bounds_are_reached(
    octet: bytes, number: float, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: octet * count)
    assert random_between(10, 20) == pytest.approx(number, rel=1e-12)
    assert random_index(10) == last
    assert random_seed() == (0 if last == 0 else 2**63 - 1)
