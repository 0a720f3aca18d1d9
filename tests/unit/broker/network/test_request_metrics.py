"""Where a request's time went (B-A9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.broker.network.request import Request
from fastprod.broker.network.request_metrics import ApiMetrics, Histogram, RequestMetrics
from support.broker.request_samples import Desk

MS = 1_000_000


def finished(**times: int) -> Request:
    request = Desk().request()
    for name, value in times.items():
        setattr(request, name, value)
    return request


FULL = {
    "received_ns": 10 * MS,
    "dequeued_ns": 11 * MS,
    "local_done_ns": 13 * MS,
    "response_enqueued_ns": 20 * MS,
    "response_dequeued_ns": 25 * MS,
    "sent_ns": 33 * MS,
    "throttle_ms": 9,
}


def test_each_stretch_of_time_has_its_histogram() -> None:
    """B-A9 RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs, ThrottleTimeMs, ResponseQueueTimeMs,
    ResponseSendTimeMs, TotalTimeMs and RequestBytes.
    """
    metrics = ApiMetrics()
    metrics.record(finished(**FULL), deprecated=False)
    assert {
        name: getattr(metrics, name).total / MS for name in ApiMetrics.__slots__ if "_ns" in name
    } == {
        "request_queue_ns": 1,
        "local_ns": 2,
        "remote_ns": 7,
        "response_queue_ns": 5,
        "response_send_ns": 8,
        "throttle_ns": 9,
        "total_ns": 23,
    }
    assert metrics.request_bytes.total == 12


@pytest.mark.parametrize("local_done_ns", [-1, 21 * MS])
def test_an_answer_that_overtakes_its_handler_ends_its_local_time(local_done_ns: int) -> None:
    """B-A9: another thread answered before the handler returned."""
    metrics = ApiMetrics()
    times = {**FULL, "local_done_ns": local_done_ns}
    metrics.record(finished(**times), deprecated=False)
    assert metrics.local_ns.total == 9 * MS
    assert metrics.remote_ns.total == 0


def test_recorders_of_several_threads_are_summed_by_name() -> None:
    """B-A9 RequestsPerSec, DeprecatedRequestsPerSec and ErrorsPerSec. B-A10.33: what a thread
    counted stays when it has ended.
    """
    metrics = RequestMetrics(name_of=lambda key: f"Api{key}", is_deprecated=lambda key, v: v < 2)
    for version in (1, 2, 2):
        request = finished(**FULL)
        request.header = request.header._replace(api_key=1, version=version)
        request.error_counts = {0: 1, 6: 2}
        request.metrics_alias = "Api1Consumer"
        metrics.recorder().record(request)
    other = finished(**FULL)
    metrics.recorder().record(other)
    snapshot = metrics.snapshot()
    assert sorted(snapshot) == ["Api0", "Api1", "Api1Consumer"]
    for name in ("Api1", "Api1Consumer"):
        assert snapshot[name].requests_by_version == {1: 1, 2: 2}
        assert snapshot[name].deprecated_by_version == {1: 1}
        assert snapshot[name].errors_by_code == {0: 3, 6: 6}
        assert snapshot[name].request_count == 3
        assert snapshot[name].total_ns.mean == 23 * MS
    assert snapshot["Api0"].errors_by_code == {0: 1}
    assert metrics.snapshot()["Api1"].request_count == 3


def test_an_empty_histogram_is_zero() -> None:
    empty = Histogram()
    assert (empty.mean, empty.quantile(0.99), empty.largest) == (0, 0, 0)


def test_a_negative_time_counts_as_none() -> None:
    histogram = Histogram()
    histogram.record(-5)
    assert (histogram.count, histogram.total, histogram.largest) == (1, 0, 0)


@given(
    st.lists(st.integers(0, 2**63 - 1), min_size=1),
    st.lists(st.integers(0, 2**63 - 1)),
    st.floats(0, 1),
)
def test_quantiles_are_right_within_a_factor_of_two(
    first: list[int], second: list[int], share: float
) -> None:
    """Also of two histograms added."""
    histogram, other = Histogram(), Histogram()
    for value in first:
        histogram.record(value)
    for value in second:
        other.record(value)
    histogram.add(other)
    values = sorted(first + second)
    needed = share * len(values)
    exact = next(v for i, v in enumerate(values, 1) if i >= needed)
    assert exact <= histogram.quantile(share) <= max(values[-1], exact)
    assert histogram.quantile(share) <= 2 * exact + 1
    assert (histogram.count, histogram.total) == (len(values), sum(values))
    assert histogram.largest == values[-1]
