"""fastprod.cli.latency: percentiles by nearest rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.cli.latency import LatencySamples, milliseconds, percentile
from fastprod.records import RecordMetadata

METADATA = RecordMetadata.failed("t", 0)


def test_percentiles_of_a_thousand_are_the_ones_at_their_rank() -> None:
    ordered = list(range(1, 1001))
    found = [percentile(ordered, each) for each in (50, 95, 99, 99.9, 100)]
    assert found == [500, 950, 990, 999, 1000]
    assert percentile([7], 0.001) == 7


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=200).map(sorted),
    st.sampled_from([0.1, 1, 10, 33.3, 50, 95, 99, 99.9, 100]),
)
def test_a_percentile_is_the_smallest_that_so_many_do_not_exceed(
    ordered: list[int], percent: float
) -> None:
    def is_enough(value: int) -> bool:
        return sum(each <= value for each in ordered) * 1000 >= round(percent * 10) * len(ordered)

    assert percentile(ordered, percent) == min(each for each in ordered if is_enough(each))


def test_only_delivered_records_have_a_latency_and_the_first_error_is_kept() -> None:
    samples = LatencySamples()
    first = ValueError("first")
    for error in (None, first, ValueError("second"), None):
        samples.begin()(METADATA, error)
    assert len(samples) == 2
    assert samples.first_error is first


def test_words_name_the_average_percentiles_and_maximum() -> None:
    samples = LatencySamples()
    assert samples.in_words() == "none: no sampled record was delivered"
    for number in range(1, 1001):
        samples.add_ns(number * 10_000)
    assert samples.in_words() == (
        "avg 5.00 ms, p50 5.00 ms, p95 9.50 ms, p99 9.90 ms, p99.9 9.99 ms, max 10.0 ms"
    )


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (1_234, "0.001 ms"),
        (123_456, "0.123 ms"),
        (1_234_567, "1.23 ms"),
        (12_345_678, "12.3 ms"),
        (1_234_567_890, "1,235 ms"),
    ],
)
def test_a_duration_has_three_digits_that_count(duration_ns: int, text: str) -> None:
    assert milliseconds(duration_ns) == text
