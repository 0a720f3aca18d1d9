"""Patience: it runs out, and never below nothing."""

from __future__ import annotations

from fastprod.aio.patience import Patience

HOUR_MS = 3_600_000


def test_what_is_left_is_never_more_than_it_was_and_never_below_zero() -> None:
    lasting = Patience(HOUR_MS)
    assert HOUR_MS / 2 < lasting.left_ms <= lasting.longest_ms == HOUR_MS
    assert lasting.left_s <= HOUR_MS / 1000
    over = Patience(0)
    assert (over.left_s, over.left_ms) == (0.0, 0)
