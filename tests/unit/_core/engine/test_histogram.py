"""Histograms and maxima of the engine: contract P-K.2, P-K's avg and max."""

from __future__ import annotations

import math

import pytest

from fastprod._core.testing.engine_doors import histogram_for_test, maxima_for_test

MS = 1_000_000


def test_an_empty_histogram_has_no_mean_maximum_or_percentile() -> None:
    empty = histogram_for_test([])
    assert (empty.count, empty.largest_ns) == (0, 0)
    assert math.isnan(empty.mean_ms)
    assert math.isnan(empty.max_ms)
    assert math.isnan(empty.percentile_ms(0.5))
    assert sum(times for _, times in empty.buckets()) == 0


def test_mean_and_maximum_are_exact() -> None:
    found = histogram_for_test([1 * MS, 2 * MS, 6 * MS])
    assert found.count == 3
    assert found.mean_ms == 3.0
    assert found.max_ms == 6.0
    assert found.largest_ns == 6 * MS


def test_a_weight_counts_one_time_as_so_many() -> None:
    found = histogram_for_test([2 * MS], weight=1000)
    assert found.count == 1000
    assert found.mean_ms == 2.0


def test_a_negative_time_counts_as_none() -> None:
    found = histogram_for_test([-5])
    assert (found.count, found.mean_ms, found.buckets()[0][1]) == (1, 0.0, 1)


def test_buckets_are_quarters_of_powers_of_two_without_gaps() -> None:
    bounds = [bound for bound, _ in histogram_for_test([]).buckets()]
    assert bounds[:6] == [0.001024, 0.00128, 0.001536, 0.001792, 0.002048, 0.00256]
    assert bounds == sorted(set(bounds))
    assert bounds[-1] == 2**38 / MS
    ratios = [bounds[i + 1] / bounds[i] for i in range(len(bounds) - 1)]
    assert max(ratios) == pytest.approx(1.25)


@pytest.mark.parametrize("ns", [0, 1023, 1024, 1279, 1280, 2047, 2048, 2**38 - 1])
def test_a_time_falls_into_the_bucket_below_whose_bound_it_is(ns: int) -> None:
    buckets = histogram_for_test([ns]).buckets()
    (index,) = (i for i, (_, times) in enumerate(buckets) if times)
    assert ns < round(buckets[index][0] * MS)
    assert index == 0 or ns >= round(buckets[index - 1][0] * MS)


def test_a_time_beyond_the_last_bound_falls_into_the_last_bucket() -> None:
    found = histogram_for_test([2**50])
    assert found.buckets()[-1][1] == 1
    assert found.percentile_ms(1.0) <= found.max_ms


def test_a_percentile_is_never_above_the_maximum() -> None:
    found = histogram_for_test([1_000_001])
    assert found.percentile_ms(0.999) <= found.max_ms


@pytest.mark.parametrize("fraction", [-0.01, 1.01, 99.0])
def test_a_fraction_out_of_range_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="must be 0 to 1"):
        histogram_for_test([1]).percentile_ms(fraction)


def test_the_difference_of_two_copies_is_what_came_between() -> None:
    earlier = histogram_for_test([1 * MS] * 10)
    later = histogram_for_test([4 * MS, 8 * MS] + [1 * MS] * 10)
    between = later.since(earlier)
    assert between.count == 2
    assert between.mean_ms == 6.0
    assert between.percentile_ms(0.5) == pytest.approx(4.0, rel=0.125)
    assert between.percentile_ms(1.0) == pytest.approx(8.0, rel=0.125)
    assert later.since(None).count == 12


def test_a_difference_takes_the_longest_of_the_times_it_is_told() -> None:
    """A maximum that a sample took out of the histogram is not in the later copy any more."""
    later = histogram_for_test([1 * MS])
    assert later.since(None, 9 * MS).max_ms == 9.0
    assert later.since(None, MS // 2).max_ms == 1.0


def test_a_sum_that_wraps_around_still_gives_the_right_mean_of_a_difference() -> None:
    earlier = histogram_for_test([2**38] * 63, weight=2**20)
    later = histogram_for_test([2**38] * 64 + [3 * MS], weight=2**20)
    assert later.since(earlier).mean_ms == pytest.approx((2**38 + 3 * MS) / 2 / MS)


def test_a_maximum_is_of_the_values_since_it_was_last_taken() -> None:
    assert maxima_for_test([3, 9, 4, 1, 2, 0], 3) == [(9, 9, 0), (2, 2, 0)]
