"""How large the large proofs are: FASTPROD_SCALE, in percent of the full size; `make test`: 5."""

from __future__ import annotations

import os

import pytest

SCALE_PERCENT = float(os.environ.get("FASTPROD_SCALE", "5"))


def scaled(full_size: int, *, at_least: int = 1) -> int:
    """The part of `full_size` that this run is to do."""
    return max(at_least, round(full_size * SCALE_PERCENT / 100))


def time_limit(full_s: float, *, least_s: float = 120.0) -> pytest.MarkDecorator:
    """A test's time limit: `full_s` seconds at the full size, in proportion below."""
    return pytest.mark.timeout(max(least_s, full_s * SCALE_PERCENT / 100))
