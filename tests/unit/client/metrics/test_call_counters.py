"""What Python counts for metrics(): contract P-K, P-L.25."""

from __future__ import annotations

import itertools

import pytest

from fastprod.client.metrics.call_counters import TIMED_CALLS, CallCounters


def test_nothing_is_counted_at_first() -> None:
    totals = CallCounters().totals()
    assert set(totals) == {*TIMED_CALLS, "errors", "throttle_ms", "responses"}
    assert set(totals.values()) == {0}


@pytest.mark.parametrize("call", TIMED_CALLS)
def test_the_time_of_a_call_grows_with_each_call(call: str) -> None:
    """P-L.25 testFlushMeasureLatency, testMeasureTransactionDurations, ...AbortTransaction..."""
    # Each look at the clock is later than the one before by one more ns: 1, 3, 6, 10.
    times_ns = itertools.accumulate(itertools.count(1))
    counters = CallCounters(lambda: next(times_ns))
    with counters.timed(call):
        pass
    assert counters.totals()[call] == 2
    with counters.timed(call):
        pass
    assert counters.totals()[call] == 2 + 4


def test_a_call_that_raises_took_its_time_too() -> None:
    times_ns = iter([10, 17])
    counters = CallCounters(lambda: next(times_ns))
    with pytest.raises(KeyError), counters.timed("flush"):
        raise KeyError
    assert counters.totals()["flush"] == 7


def test_errors_add_up() -> None:
    counters = CallCounters()
    counters.count_error()
    counters.count_error()
    assert counters.totals()["errors"] == 2


def test_throttle_times_add_up_and_those_of_zero_count() -> None:
    """P-G.8: the metric is of all responses."""
    counters = CallCounters()
    for throttle_ms in (400, 0, 100):
        counters.count_throttle(throttle_ms)
    assert counters.totals()["throttle_ms"] == 500
    assert counters.totals()["responses"] == 3
    assert counters.longest_throttle_ms(reset=False) == 400
    assert counters.longest_throttle_ms(reset=True) == 400
    counters.count_throttle(30)
    assert counters.longest_throttle_ms(reset=False) == 30


def test_totals_are_a_copy() -> None:
    counters = CallCounters()
    before = counters.totals()
    counters.count_error()
    assert before["errors"] == 0
