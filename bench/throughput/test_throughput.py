"""Records a second of fastprod and its rivals, and the CPU and memory they take for it.

`pytest bench/throughput [--quick] [-k kafka]`: the points of bench/run as benchmarks; a round is a
process of its own, whose records are counted in the topic. The time of a round is the one from the
first send to the last acknowledgement.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.macro import throughput
from bench.point import Point
from bench.replay import Measured, contenders, delivered_s, replay

POINTS = throughput.points()


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("point", "label"), contenders(POINTS))
def test_throughput(
    point: Point, label: str, measured: Measured, benchmark: BenchmarkFixture
) -> None:
    replay(benchmark, measured.series(point)[label], delivered_s)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("point", [pytest.param(each, id=each.name) for each in POINTS])
def test_bounds(point: Point, measured: Measured) -> None:
    """bench/budget.toml has them."""
    assert not measured.missed(point)
