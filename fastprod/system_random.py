"""Numbers by the system's randomness.

The module random does that, too, but `import fastprod` would spend a twentieth of its time on it.
"""

from __future__ import annotations

import os
from typing import Final

_DRAWN_BYTES: Final = 8
_FLOAT_BITS: Final = 53


def random_between(low: float, high: float) -> float:
    """A number between two others."""
    share = (_drawn() >> (8 * _DRAWN_BYTES - _FLOAT_BITS)) / (1 << _FLOAT_BITS)
    return low + (high - low) * share


def random_index(count: int) -> int:
    """A number from 0 up to, not including, `count`, which is at least 1."""
    return _drawn() % count


def random_seed() -> int:
    """63 random bits, for a generator that is quicker."""
    return _drawn() >> 1


def _drawn() -> int:
    return int.from_bytes(os.urandom(_DRAWN_BYTES))
