"""One record at a time: how long from send to acknowledgement, of fastprod and its rivals.

`pytest bench/latency [--quick] [-k kafka]`: the points of bench/run as benchmarks; a round is a
process of its own, whose records are counted in the topic. The time of a round is the median of its
records' latencies. The points cold.* have one record, and the constructor before it.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.macro import cold, latency
from bench.point import Point
from bench.replay import Measured, contenders, median_latency_s, replay

POINTS = [*latency.points(), *cold.points()]


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("point", "label"), contenders(POINTS))
def test_latency(point: Point, label: str, measured: Measured, benchmark: BenchmarkFixture) -> None:
    replay(benchmark, measured.series(point)[label], median_latency_s)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("point", [pytest.param(each, id=each.name) for each in POINTS])
def test_bounds(point: Point, measured: Measured) -> None:
    """bench/budget.toml has them."""
    assert not measured.missed(point)
