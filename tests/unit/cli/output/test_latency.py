"""fastprod.cli.output.latency: percentiles by nearest rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.cli.output.latency import LatencySamples, milliseconds, percentile
from fastprod.records import failed_metadata

METADATA = failed_metadata("t", 0)


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


def test_the_histogram_counts_between_powers_of_two() -> None:
    samples = LatencySamples()
    assert samples.histogram() == ""
    for latency_ns, count in [(249_999, 1), (250_000, 60), (499_999, 540), (2_000_000, 2000)]:
        for _ in range(count):
            samples.add_ns(latency_ns)
    assert samples.histogram().splitlines() == [
        "< 0.25 ms      1  #",
        " < 0.5 ms    600  #########",
        "   < 1 ms      0",
        "   < 2 ms      0",
        "   < 4 ms  2,000  ##############################",
    ]


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=50))
def test_each_sample_is_in_the_line_of_its_power(latencies_ns: list[int]) -> None:
    samples = LatencySamples()
    for each in latencies_ns:
        samples.add_ns(each)
    below = 0
    for line in samples.histogram().splitlines():
        bound_ms, count = float(line.split()[1]), int(line.split()[3].replace(",", ""))
        assert sum(bound_ms / 2 <= each / 1e6 < bound_ms for each in latencies_ns) == count
        below += count
    assert below == len(latencies_ns)


def test_samples_may_come_while_they_are_told() -> None:
    samples = LatencySamples()
    samples.add_ns(1)
    taken = samples.in_words()
    samples.add_ns(2_000_000)
    assert (len(samples), samples.in_words() != taken) == (2, True)


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
