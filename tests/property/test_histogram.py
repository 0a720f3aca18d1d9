"""The engine's histograms against sorted lists."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.testing.engine_doors import histogram_for_test

TIMES_NS = st.lists(st.integers(0, 200_000_000_000), min_size=1, max_size=200)
FRACTIONS = st.floats(0, 1)
NS_PER_MS = 1_000_000


@given(TIMES_NS, FRACTIONS)
def test_a_percentile_is_near_that_of_the_sorted_times(
    times_ns: list[int], fraction: float
) -> None:
    found_ns = histogram_for_test(times_ns).percentile_ms(fraction) * NS_PER_MS
    rank = max(1, math.ceil(fraction * len(times_ns)))
    exact_ns = sorted(times_ns)[rank - 1]
    if exact_ns < 1024:
        assert found_ns < 1024
    else:
        # Both lie in one bucket, whose width is at most a quarter of its lower bound.
        assert exact_ns / 1.25 <= found_ns <= exact_ns * 1.25


@given(TIMES_NS, FRACTIONS)
def test_equal_times_give_a_percentile_at_most_an_eighth_off(
    times_ns: list[int], fraction: float
) -> None:
    time_ns = max(times_ns[0], 1024)
    found = histogram_for_test([time_ns] * 1001)
    assert found.percentile_ms(0.5) * NS_PER_MS == pytest.approx(time_ns, rel=0.125)
    assert found.percentile_ms(fraction) <= found.max_ms


@given(TIMES_NS, TIMES_NS)
def test_mean_count_and_buckets_of_a_difference_are_those_of_the_later_times(
    first_ns: list[int], second_ns: list[int]
) -> None:
    both = histogram_for_test(first_ns + second_ns)
    alone = histogram_for_test(second_ns)
    between = both.since(histogram_for_test(first_ns))
    assert between.count == len(second_ns)
    assert between.mean_ms == pytest.approx(sum(second_ns) / len(second_ns) / NS_PER_MS)
    assert between.buckets() == alone.buckets()
