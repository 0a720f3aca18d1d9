"""ExponentialBackoff: the one delay formula of the client (contract P-D.6.1, KIP-580)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastprod.system_random import random_between

JITTER: Final = 0.2
"""Half-width of the random factor: delays are spread over 80-120 % of the exact value."""


class ExponentialBackoff:
    """Delay before attempt n: ``min(max, base * 2**min(n, log2(max / base)) * U(0.8, 1.2))``.

    With ``base_ms >= max_ms`` the delay is constantly ``max_ms`` and carries no jitter
    (contract P-B.5, P-D.6.1). Immutable, so any thread may call it; nothing blocks.
    Source: KIP-580, Java's ``ExponentialBackoff``, contract P-D.6.1.

    Args:
        base_ms: delay for n = 0, in ms, >= 0.
        max_ms: upper bound of every delay, in ms, >= 0.
        jitter: half-width of the random factor, 0 <= jitter < 1, default 0.2; 0 is exact.
        uniform: gives a float between its two arguments; default: the system's randomness.

    Raises:
        ValueError: a negative delay, or a jitter outside [0, 1).
    """

    __slots__ = ("_base_ms", "_exponent_limit", "_jitter", "_max_ms", "_uniform")

    def __init__(
        self,
        base_ms: int,
        max_ms: int,
        *,
        jitter: float = JITTER,
        uniform: Callable[[float, float], float] = random_between,
    ) -> None:
        if base_ms < 0 or max_ms < 0:
            raise ValueError(f"backoff of {base_ms} ms up to {max_ms} ms: both must be >= 0")
        if not 0 <= jitter < 1:
            raise ValueError(f"backoff jitter {jitter}: must be at least 0 and below 1")
        self._base_ms = min(base_ms, max_ms)
        self._max_ms = max_ms
        self._jitter = jitter
        self._uniform = uniform
        # Beyond this exponent the maximum is passed. A base of 0 stays 0 whatever the exponent.
        self._exponent_limit = (max_ms // max(base_ms, 1)).bit_length() if max_ms > base_ms else 0

    @property
    def max_ms(self) -> int:
        """Upper bound of every delay, in ms."""
        return self._max_ms

    def backoff_ms(self, failure_count: int) -> int:
        """Delay in whole ms for the exponent ``failure_count`` (>= 0; 0 gives the base).

        Draws a new random factor at each call: a caller that compares a delay with a clock more
        than once keeps the value (contract P-D.6.4).

        Raises:
            ValueError: ``failure_count`` is negative.
        """
        if failure_count < 0:
            raise ValueError(f"backoff exponent {failure_count}: must be >= 0")
        if self._exponent_limit == 0:
            return self._base_ms
        exact_ms = min(self._base_ms << min(failure_count, self._exponent_limit), self._max_ms)
        factor = self._uniform(1 - self._jitter, 1 + self._jitter) if self._jitter else 1.0
        return min(self._max_ms, int(exact_ms * factor))
