"""Runs of the benchmarks as rounds of pytest-benchmark."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import replay
from bench.fresh_process import Contender, Run
from bench.meter import Outcome
from bench.point import Point
from bench.series import Series
from bench.workload import Workload

OURS = Contender("ours", "peer", Workload("latency", 100))


def outcome(wall_s: float, latencies_us: list[float]) -> Outcome:
    return Outcome(
        acknowledged_count=110,
        warm_count=10,
        value_bytes=10_000_000,
        wall_s=wall_s,
        cpu_s=0.001,
        baseline_bytes=1,
        peak_bytes=5_000_000,
        latencies_us=latencies_us,
    )


SERIES = Series(OURS, [Run(outcome(wall_s, [1, 2, 60]), 0.0) for wall_s in (3.0, 1.0, 2.0)])


@pytest.mark.benchmark(timer=replay.replayed_s)
def test_a_round_takes_what_its_run_took(benchmark: BenchmarkFixture) -> None:
    replay.replay(benchmark, SERIES, replay.delivered_s)
    stats = benchmark.stats.stats  # type: ignore[union-attr]
    assert stats.data == pytest.approx([3.0, 1.0, 2.0])
    told = benchmark.extra_info
    assert told["records"] == 100
    assert told["records_per_s"] == pytest.approx(50)
    assert told["cpu_us_per_record"] == pytest.approx(10)
    assert told["peak_mb"] == pytest.approx(5)
    assert (told["p50_us"], told["p99_us"]) == (2, 60)


@pytest.mark.benchmark(timer=replay.replayed_s)
def test_a_round_of_latencies_takes_their_median(benchmark: BenchmarkFixture) -> None:
    replay.replay(benchmark, SERIES, replay.median_latency_s)
    assert benchmark.stats.stats.data == pytest.approx([2e-6] * 3)  # type: ignore[union-attr]


def test_each_contender_is_a_parameter_and_each_point_a_group() -> None:
    rival = Contender("rival", "peer", Workload("latency", 100))
    points = [
        Point(name, "title", "mock", [OURS, rival], lambda _: {}) for name in ("latency.a", "b")
    ]
    found = replay.contenders(points)
    assert [each.id for each in found] == ["latency.a-ours", "latency.a-rival", "b-ours", "b-rival"]
    assert [each.values for each in found][1] == (points[0], "rival")
    assert [mark.kwargs["group"] for each in found for mark in each.marks] == [
        *("latency.a",) * 2,
        *("b",) * 2,
    ]
