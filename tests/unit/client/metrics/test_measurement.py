"""A window is the difference of two measurements, maxima those of its parts: contract P-K."""

from __future__ import annotations

import math

from fastprod._core.engine.figures import NodeFigures, TopicFigures
from fastprod._core.engine.histogram import LatencyHistogram
from fastprod._core.testing.engine_doors import histogram_for_test
from fastprod.client.metrics.measurement import Measurement, Window

MS = 1_000_000
SECOND = 1_000_000_000


def times(*times_ms: int, largest_ms: int = 0) -> LatencyHistogram:
    return histogram_for_test([ms * MS for ms in times_ms], largest_ns=largest_ms * MS)


def node(factor: int, largest_request: int, latency: LatencyHistogram) -> NodeFigures:
    return NodeFigures(
        7, factor, 20 * factor, 3 * factor, 40 * factor, 50 * factor, 6, largest_request, latency
    )


def topic(factor: int, ack_time: LatencyHistogram) -> TopicFigures:
    return TopicFigures(
        "t", factor, 20 * factor, 3 * factor, 40 * factor, 5 * factor, 6 * factor, ack_time
    )


def measurement(
    count: int,
    largest: int,
    latency: LatencyHistogram,
    nodes: list[NodeFigures] | None = None,
    topics: list[TopicFigures] | None = None,
) -> Measurement:
    return Measurement(
        0,
        {"count": count},
        {"largest": largest},
        {"latency": latency},
        {each.node_id: each for each in nodes or []},
        {each.name: each for each in topics or []},
    )


def test_a_counter_gives_its_growth_and_the_rate_of_it() -> None:
    window = Window(measurement(10, 0, times()), [], measurement(25, 0, times()), 5 * SECOND)
    assert window.delta("count") == 15
    assert window.rate(15) == 3.0


def test_the_maximum_before_the_window_does_not_count() -> None:
    base = measurement(0, 99, times())
    parts = [measurement(0, 4, times()), measurement(0, 8, times())]
    assert Window(base, parts, measurement(0, 5, times()), SECOND).largest("largest") == 8


def test_latencies_are_those_of_the_window_alone() -> None:
    base = measurement(0, 0, times(100, 100, largest_ms=100))
    part = measurement(0, 0, times(100, 100, 9, largest_ms=9))
    now = measurement(0, 0, times(100, 100, 9, 3, largest_ms=3))
    found = Window(base, [part], now, SECOND).latency("latency")
    assert (found.count, found.mean_ms, found.max_ms) == (2, 6.0, 9.0)
    quiet = Window(now, [], now, SECOND).latency("latency")
    assert math.isnan(quiet.mean_ms)


def test_a_node_has_done_the_difference() -> None:
    base = measurement(0, 0, times(), [node(1, 500, times(8, largest_ms=8))])
    part = measurement(0, 0, times(), [node(2, 70, times(8, 4, largest_ms=4))])
    last = node(4, 60, times(8, 4, 2, largest_ms=2))
    window = Window(base, [part], measurement(0, 0, times(), [last]), SECOND)
    found = window.node(last)
    assert found[:8] == (7, 3, 60, 9, 120, 150, 6, 70)
    assert (found.latency.count, found.latency.max_ms) == (2, 4.0)


def test_a_node_first_seen_in_the_window_has_done_everything_in_it() -> None:
    part = measurement(0, 0, times(), [node(1, 80, times(4, largest_ms=4))])
    last = node(2, 10, times(4, 2, largest_ms=2))
    now = measurement(0, 0, times(), [last])
    found = Window(measurement(0, 0, times()), [part], now, SECOND).node(last)
    assert found[:8] == (7, 2, 40, 6, 80, 100, 6, 80)
    assert (found.latency.count, found.latency.max_ms) == (2, 4.0)


def test_a_topic_has_seen_the_difference() -> None:
    base = measurement(0, 0, times(), topics=[topic(1, times(8, largest_ms=8))])
    part = measurement(0, 0, times(), topics=[topic(2, times(8, 4, largest_ms=4))])
    last = topic(5, times(8, 4, 2, largest_ms=2))
    window = Window(base, [part], measurement(0, 0, times(), topics=[last]), SECOND)
    found = window.topic(last)
    assert found[:7] == ("t", 4, 80, 12, 160, 20, 24)
    assert (found.ack_time.count, found.ack_time.max_ms) == (2, 4.0)


def test_a_topic_first_seen_in_the_window_has_seen_everything_in_it() -> None:
    last = topic(2, times(4, largest_ms=4))
    now = measurement(0, 0, times(), topics=[last])
    found = Window(measurement(0, 0, times()), [], now, SECOND).topic(last)
    assert found[:7] == last[:7]
    assert found.ack_time.max_ms == 4.0
