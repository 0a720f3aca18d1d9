"""ExponentialBackoff: contract P-D.6.1, P-B.5; Kafka's ExponentialBackoffTest (P-L.190)."""

from __future__ import annotations

import pytest

from fastprod.client.backoff import ExponentialBackoff


def test_delays_double_up_to_the_maximum_within_twenty_percent() -> None:
    """P-L.190 testExponentialBackoff: 100 * 2**n, capped at 1000, +-20 %. P-D.6.1."""
    low = ExponentialBackoff(100, 1000, uniform=lambda a, b: a)
    high = ExponentialBackoff(100, 1000, uniform=lambda a, b: b)
    assert [low.backoff_ms(n) for n in range(6)] == [80, 160, 320, 640, 800, 800]
    assert [high.backoff_ms(n) for n in range(6)] == [120, 240, 480, 960, 1000, 1000]


def test_without_jitter_the_delays_are_exact() -> None:
    """P-L.190 testExponentialBackoffWithoutJitter."""
    backoff = ExponentialBackoff(100, 400, jitter=0)
    assert [backoff.backoff_ms(n) for n in range(5)] == [100, 200, 400, 400, 400]


def test_the_real_random_factor_stays_within_its_bounds() -> None:
    """P-D.6.1: U(0.8, 1.2)."""
    delays = [ExponentialBackoff(100, 1000).backoff_ms(1) for _ in range(200)]
    assert 160 <= min(delays) < max(delays) <= 240


@pytest.mark.parametrize(("base_ms", "max_ms"), [(1000, 1000), (5000, 1000)])
def test_a_base_not_below_the_maximum_is_constantly_the_maximum(base_ms: int, max_ms: int) -> None:
    """P-D.6.1, P-B.5: constant = max, and no jitter."""

    def uniform(low: float, high: float) -> float:
        raise AssertionError("jitter was drawn")

    backoff = ExponentialBackoff(base_ms, max_ms, uniform=uniform)
    assert [backoff.backoff_ms(n) for n in (0, 1, 50)] == [1000, 1000, 1000]


def test_a_base_of_zero_never_waits() -> None:
    backoff = ExponentialBackoff(0, 1000)
    assert [backoff.backoff_ms(n) for n in (0, 1, 1000)] == [0, 0, 0]


def test_an_exponent_beyond_any_float_gives_the_maximum() -> None:
    assert ExponentialBackoff(1, 1000, jitter=0).backoff_ms(10**9) == 1000


def test_numbers_out_of_range_are_refused_with_the_number() -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        ExponentialBackoff(-1, 100)
    with pytest.raises(ValueError, match=r"1\.0"):
        ExponentialBackoff(1, 100, jitter=1.0)
    with pytest.raises(ValueError, match="-3"):
        ExponentialBackoff(1, 100).backoff_ms(-3)
