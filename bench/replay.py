"""Points of bench/run as tests of pytest-benchmark: what was measured, told to its fixture.

The fixture times a function, and a run here is a process: its start and its import are no part of
the figure. So the runs of a point are made by `bench.series.alternate`, as by bench/run, and each
is then a round whose time is told by a clock that counts what the client itself took.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import budget, report
from bench.fresh_process import Run
from bench.point import Point
from bench.series import Series, alternate
from bench.servers.servers import Servers

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

_US = 1e-6
_clock_s = 0.0


def replayed_s() -> float:
    """The clock of the rounds: the sum of what the clients took so far, in seconds."""
    return _clock_s


def _advance(seconds: float) -> None:
    global _clock_s
    _clock_s += seconds


def contenders(points: Iterable[Point]) -> list[ParameterSet]:
    """Each contender of each point, as a parameter (point, label) of a test; a group by point."""
    return [
        pytest.param(
            point,
            each.label,
            id=f"{point.name}-{each.label}",
            marks=pytest.mark.benchmark(group=point.name, timer=replayed_s),
        )
        for point in points
        for each in point.contenders
    ]


def replay(benchmark: BenchmarkFixture, series: Series, seconds_of: Callable[[Run], float]) -> None:
    """Make each run of the series a round of `benchmark`; the figures go into its extra_info."""
    runs = iter(series.runs)
    benchmark.extra_info.update(figures(series))
    # Its authors gave it no types.
    pedantic: Callable[..., object] = benchmark.pedantic
    pedantic(lambda: _advance(seconds_of(next(runs))), rounds=len(series.runs))


def delivered_s(run: Run) -> float:
    """From the first send to the last acknowledgement."""
    return run.outcome.wall_s


def median_latency_s(run: Run) -> float:
    """The median of the latencies of a run's records."""
    return statistics.median(run.outcome.latencies_us) * _US


def figures(series: Series) -> dict[str, float | int | str]:
    """What a run's time does not say, by name: medians over the runs, memory the largest."""
    found: dict[str, float | int | str] = {
        "settings": series.contender.workload.settings_text(),
        "records": series.runs[0].outcome.record_count,
        "records_per_s": series.rate_per_s,
        "mb_per_s": series.mb_per_s,
        "cpu_us_per_record": series.cpu_us,
        "peak_mb": series.peak_mb,
        "others_share": series.foreign_share,
    }
    if series.has_latencies:
        for name, share in (("p50_us", 0.5), ("p99_us", 0.99), ("p99.9_us", 0.999)):
            found[name] = series.latency_us(share)
    return found


class Measured:
    """Measures each point once, when its first test asks, on one server after the other.

    Args:
        shortening: rounds and divisor as for `Point.shortened`; None: the points as they are.
        say: gets the table of each point and the bounds that it has to keep.
    """

    def __init__(self, shortening: tuple[int, int] | None, say: Callable[[str], None]) -> None:
        self._shortening = shortening
        self._say = say
        self._found: dict[str, dict[str, Series]] = {}
        self._servers = Servers()

    def series(self, point: Point) -> dict[str, Series]:
        """The runs of a point's contenders, by label.

        Raises:
            WrongAnswer: a contender did not deliver what it was given.
        """
        if point.name not in self._found:
            if self._shortening is not None:
                point = point.shortened(*self._shortening)
            server = self._servers[point.server]
            found = alternate(point.contenders, server, point.rounds, lambda _: None)
            self._say(report.table(point, found, server.name))
            self._found[point.name] = found
        return self._found[point.name]

    def missed(self, point: Point) -> Sequence[budget.Verdict]:
        """The bounds of bench/budget.toml that a point's figures miss."""
        found = {f"{point.name}.{n}": v for n, v in point.figures(self.series(point)).items()}
        verdicts = list(budget.judge(budget.read_bounds(), point.name, found, ("budget",)))
        self._say(report.figure_lines(found))
        self._say(report.verdict_lines(verdicts))
        return [each for each in verdicts if not each.is_kept]

    def close(self) -> None:
        """End the server."""
        self._servers.close()
