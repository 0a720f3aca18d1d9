"""The command behind bench/spark_run: Spark's sinks for Kafka beside each other, and a verdict.

Each run has a JVM of its own. What arrived is counted in the topic. Finished points are kept in
logs/bench-spark.json and are not measured again while the sources are the same; those that others
disturbed are not finished.
Exit code 1: a limit is missed, a run failed, or others disturbed every run of a series.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import accept
import checkout
from bench import budget, report
from bench.fresh_process import WrongAnswer
from bench.kept_points import KeptPoints
from bench.servers.servers import Servers
from bench.spark.job import SparkJob, SparkOutcome
from bench.spark.points import SparkPoint, SparkSeries, all_points
from bench.spark.runner import run_in_turns

LIMITS_FILE = Path(__file__).with_name("limits.toml")
_LOGS = checkout.ROOT / "logs"
_LOG = _LOGS / "bench-spark.log"
_STATE = _LOGS / "bench-spark.json"
_STEP = "spark-peers"
_WIDTH = 24


class KeptSeries(KeptPoints):
    """The series of points that are finished, by name."""

    def series(self, name: str) -> dict[str, SparkSeries] | None:
        """The point's, or None."""
        given = self.get(name)
        if given is None:
            return None
        return {
            label: SparkSeries(
                SparkJob(**each["job"]),
                [SparkOutcome(**run) for run in each["runs"]],
                each["discarded_count"],
                each["is_disturbed"],
            )
            for label, each in given.items()
        }

    def keep_series(self, name: str, series: Mapping[str, SparkSeries]) -> None:
        """Write it down."""
        self.keep(name, {label: dataclasses.asdict(each) for label, each in series.items()})


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/spark_run", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="POINT",
        help="only points whose names begin so; may be given more than once",
    )
    parser.add_argument("--quick", action="store_true", help="one round, a tenth of the rows")
    parser.add_argument("--again", action="store_true", help="measure what is finished, too")
    parser.add_argument("--list", action="store_true", help="print the points' names and end")
    return parser.parse_args(argv)


def _say(text: str) -> None:
    stamp = time.strftime("%H:%M:%S")
    with _LOG.open("a") as log:
        log.write(f"{stamp} {text}\n")
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _table(point: SparkPoint, series: Mapping[str, SparkSeries], server: str) -> str:
    lines = [
        f"{point.name}: {point.title}",
        f"  server: {server}; rounds: {point.rounds}",
        f"  {'':{_WIDTH}} {'rows':>11} {'rows/s':>10} {'(least..most)':>21} {'MB/s':>6} "
        f"{'CPU us':>7} {'Python':>7} {'peak MB':>8} {'ms':>7}  others",
    ]
    for label, each in series.items():
        job, rates = each.job, each.rates_per_s
        spread = f"({min(rates):,.0f}..{max(rates):,.0f})"
        ms = f"{each.median_ms:.1f}" if each.median_ms else ""
        mark = f"  {each.discarded_count} discarded" if each.discarded_count else ""
        mark = "  DISTURBED in every run" if each.is_disturbed else mark
        lines.append(
            f"  {label:{_WIDTH}} {job.row_count:11,} {each.rate_per_s:10,.0f} {spread:>21} "
            f"{each.rate_per_s * job.value_bytes / 1e6:6,.0f} {each.cpu_us:7.3f} "
            f"{each.python_cpu_us:7.3f} {each.peak_mb:8,.0f} {ms:>7}  {each.foreign_share:5.0%}"
            f"{mark}"
        )
    return "\n".join(lines)


def _measure(
    points: list[SparkPoint],
    kept: KeptSeries,
    bounds: list[budget.Bound],
    given: argparse.Namespace,
) -> tuple[list[budget.Verdict], list[str]]:
    """Verdicts, and what makes figures no answer: runs that failed, or that others disturbed.

    A point that fails is passed over; its limits are missed.
    """
    verdicts: list[budget.Verdict] = []
    troubles: list[str] = []
    with Servers() as servers:
        for point in points:
            key = f"{point.name}{'.quick' if given.quick else ''}"
            series = None if given.again else kept.series(key)
            server_name = f"{point.server}, measured before"
            figures: dict[str, float] = {}
            try:
                if series is None:
                    server = servers[point.server]
                    server_name = server.name
                    series = run_in_turns(point, server, _LOG, _say)
                    if not _disturbed(series):
                        kept.keep_series(key, series)
            except WrongAnswer as error:
                troubles.append(f"FAILED: {point.name}: {error}")
                _say(f"\n{troubles[-1]}")
            else:
                figures = {f"{point.name}.{n}": v for n, v in point.figures(series).items()}
                shown = f"{_table(point, series, server_name)}\n{report.figure_lines(figures)}\n"
                _say(f"\n{shown}")
                print(f"\r{shown}", flush=True)
                troubles += [
                    f"DISTURBED, its figures are no answer: {point.name}: {label}"
                    for label in _disturbed(series)
                ]
            verdicts += budget.judge(bounds, point.name, figures, {"limit"})
    return verdicts, troubles


def _sources() -> str:
    """Fingerprint of what figures depend on: all that the step counts but the bounds."""
    (step,) = (each for each in accept.steps() if each.name == _STEP)
    return accept.fingerprint(checkout.ROOT, step, {LIMITS_FILE.relative_to(checkout.ROOT)})


def _disturbed(series: Mapping[str, SparkSeries]) -> list[str]:
    return [label for label, each in series.items() if each.is_disturbed]


def main(argv: list[str]) -> int:
    given = _arguments(argv)
    every = all_points()
    points = [
        point
        for point in every
        if not given.only or any(point.name.startswith(prefix) for prefix in given.only)
    ]
    if given.list or not points:
        print("\n".join(point.name for point in points or every))
        return 0 if given.list else 2
    bounds = budget.read_bounds(LIMITS_FILE)
    budget.check_points(bounds, {point.name for point in every})
    _LOGS.mkdir(exist_ok=True)
    kept = KeptSeries(_STATE, _sources())
    print("\n".join(f"{name}: {value}" for name, value in report.machine().items()), end="\n\n")
    if given.quick:
        points = [point.shortened() for point in points]
    verdicts, troubles = _measure(points, kept, bounds, given)
    print(report.verdict_lines(verdicts))
    missed = [each for each in verdicts if not each.is_kept]
    print(f"{len(verdicts)} bounds, {len(missed)} missed; log: {_LOG}")
    print("\n".join(troubles))
    return 1 if missed or troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
