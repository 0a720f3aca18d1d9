"""bench.spark.points: the figures that are held against what the project promises."""

from __future__ import annotations

import pytest

from bench import budget
from bench.spark.points import (
    COUNTING,
    FOREACH,
    JVM,
    JVM_TUNED,
    OURS,
    TO_JSON,
    SparkPoint,
    SparkSeries,
    all_points,
)
from bench.spark.run import LIMITS_FILE
from support.spark.series import outcome, series

POINTS = {point.name: point for point in all_points()}


def measured(ours_per_s: float, jvm_per_s: float, counting_per_s: float) -> dict[str, SparkSeries]:
    """Series of a point; the tuned JVM sink is slower, and takes less CPU."""
    return {
        OURS: series(outcome(ours_per_s, cpu_us=1.0)),
        JVM: series(outcome(jvm_per_s, cpu_us=2.0)),
        JVM_TUNED: series(outcome(jvm_per_s * 0.9, cpu_us=0.5)),
        FOREACH: series(outcome(ours_per_s / 20)),
        COUNTING: series(outcome(counting_per_s)),
    }


@pytest.mark.parametrize(("server", "promised"), [("kafka", 1.2), ("discard", 1.5)])
def test_ours_is_held_against_the_faster_of_the_jvms_two_settings(
    server: str, promised: float
) -> None:
    found = POINTS[f"{server}.100B.local1"].figures(measured(600_000, 500_000, 1e6))
    assert found == pytest.approx(
        {
            "rate_ratio": 1.2,
            "cpu_ratio": 0.5,
            "of_counting": 0.6,
            "of_promised": 1.2 / promised,
            "foreach_ratio": 20.0,
        }
    )


def test_what_is_promised_is_no_more_than_90_percent_of_a_writer_that_only_counts() -> None:
    found = POINTS["kafka.100B.local1"].figures(measured(450_000, 500_000, 500_000))
    assert found["of_promised"] == pytest.approx(1.0)
    assert found["rate_ratio"] == pytest.approx(0.9)


def test_a_codecs_point_takes_the_faster_jvm_too() -> None:
    found = POINTS["kafka.lz4.local1"].figures(measured(750_000, 500_000, 1e6))
    assert found == pytest.approx({"rate_ratio": 1.5, "cpu_ratio": 0.5})


@pytest.mark.parametrize(("counting_per_s", "promised"), [(2e6, 1.0), (800_000, 900 / 720)])
def test_json_of_columns_is_held_against_json_that_the_jvm_makes(
    counting_per_s: float, promised: float
) -> None:
    found = POINTS["discard.json.local1"].figures(
        {
            OURS: series(outcome(900_000, cpu_us=1.0)),
            TO_JSON: series(outcome(600_000, cpu_us=2.0)),
            COUNTING: series(outcome(counting_per_s)),
        }
    )
    assert found == pytest.approx(
        {
            "rate_ratio": 1.5,
            "cpu_ratio": 0.5,
            "of_counting": 900_000 / counting_per_s,
            "of_promised": promised,
        }
    )


def test_medians_count_for_rates_and_the_best_run_for_tasks() -> None:
    runs = [outcome(rate, cpu) for rate, cpu in ((1e6, 9.0), (3e6, 2.0), (2e6, 1.0))]
    found = series(*runs)
    assert [found.rate_per_s, found.cpu_us] == pytest.approx([2e6, 2.0])
    assert POINTS["kafka.tasks.local1"].figures({OURS: found}) == {"median_ms": 1.0}


def test_every_limit_is_of_a_figure_that_its_point_makes() -> None:
    def figures(point: SparkPoint) -> set[str]:
        made = point.figures({label: series(outcome()) for label in point.jobs})
        return {f"{point.name}.{name}" for name in made}

    known = set().union(*map(figures, POINTS.values()))
    limits = budget.read_bounds(LIMITS_FILE)
    assert limits
    assert {each.figure for each in limits} <= known
    assert {each.kind for each in limits} == {"limit"}
