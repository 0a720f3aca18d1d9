"""Runs and series of bench/spark as if they had been measured."""

from __future__ import annotations

from bench.machine_load import FOREIGN_LIMIT
from bench.spark.job import SparkJob, SparkOutcome
from bench.spark.points import SparkSeries

ROWS = 1_000_000
QUIET, LOUD = FOREIGN_LIMIT, FOREIGN_LIMIT + 0.01


def outcome(
    rate_per_s: float = 1e6, cpu_us: float = 1.0, foreign_share: float = 0.0
) -> SparkOutcome:
    """A run of ROWS rows; its task or micro-batch took a millisecond."""
    cpu_s = cpu_us * ROWS / 1e6
    return SparkOutcome(ROWS, ROWS / rate_per_s, cpu_s, cpu_s / 2, 1, foreign_share, 1.0)


def series(*runs: SparkOutcome, is_disturbed: bool = False) -> SparkSeries:
    """The runs of one job, none of them discarded."""
    return SparkSeries(SparkJob("any", ROWS), list(runs), 0, is_disturbed)
