"""How large the large proofs are: FASTPROD_SCALE, in percent of the full size; `make test`: 2."""

from __future__ import annotations

import os

import pytest

_GIVEN = os.environ.get("FASTPROD_SCALE")
_DEFAULT_PERCENT = 2.0


def _percent(default: float) -> float:
    return default if _GIVEN is None else float(_GIVEN)


SCALE_PERCENT = _percent(_DEFAULT_PERCENT)


def scaled(full_size: int, *, at_least: int = 1, default_percent: float = _DEFAULT_PERCENT) -> int:
    """The part of `full_size` that this run is to do.

    Args:
        full_size: in the long acceptance runs.
        at_least: whatever the scale.
        default_percent: of `make test`, for what is proved there by other means already.
    """
    return max(at_least, round(full_size * _percent(default_percent) / 100))


def examples(full_count: int) -> int:
    """How many random examples of a property this run tries: a tenth of them in `make test`."""
    return scaled(full_count, at_least=5, default_percent=10)


def time_limit(full_s: float, *, least_s: float = 120.0) -> pytest.MarkDecorator:
    """A test's time limit: `full_s` seconds at the full size, in proportion below."""
    return pytest.mark.timeout(max(least_s, full_s * SCALE_PERCENT / 100))
