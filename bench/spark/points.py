"""The points of bench/spark_run: who is compared with whom, and the figures that answer it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping

from bench.spark.job import SparkJob, SparkOutcome

OURS = "fastprod"
COUNTING = "counting"
FOREACH = "foreachPartition"
JVM = "JVM sink"
JVM_TUNED = "JVM sink, 512 kB, 5 ms"
TO_JSON = "to_json, then ours"

_TUNED = {"batch.size": "512000", "linger.ms": "5"}
_CODECS = ("lz4", "zstd")
_ROWS = {100: 20_000_000, 1000: 5_000_000}
_JSON_ROWS = 5_000_000
_FOREACH_ROWS = 1_000_000
_OF_COUNTING = 0.9
# Times the JVM sink's rate that the project promises for 100 B rows on one core.
_PROMISED = {"kafka": 1.2, "discard": 1.5}
# Times the rate of Spark's to_json and our sink, for JSON of typed columns.
_PROMISED_JSON = 1.5


@dataclasses.dataclass(frozen=True)
class SparkSeries:
    """The runs of one job at a point that count."""

    job: SparkJob
    runs: list[SparkOutcome]
    discarded_count: int
    is_disturbed: bool

    @property
    def rates_per_s(self) -> list[float]:
        return [run.row_count / run.wall_s for run in self.runs]

    @property
    def rate_per_s(self) -> float:
        """Rows a second, median."""
        return statistics.median(self.rates_per_s)

    @property
    def cpu_us(self) -> float:
        """CPU time a row of driver, JVM and workers, median."""
        return statistics.median(run.cpu_s / run.row_count * 1e6 for run in self.runs)

    @property
    def python_cpu_us(self) -> float:
        """The Python processes' part of it."""
        return statistics.median(run.python_cpu_s / run.row_count * 1e6 for run in self.runs)

    @property
    def peak_mb(self) -> float:
        return max(run.peak_bytes for run in self.runs) / 1e6

    @property
    def median_ms(self) -> float:
        """Of a task or micro-batch, the best run's."""
        return min(run.median_ms or 0.0 for run in self.runs)

    @property
    def foreign_share(self) -> float:
        return max(run.foreign_share for run in self.runs)


Figures = Callable[[Mapping[str, SparkSeries]], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class SparkPoint:
    """One table: jobs by label, run in turns against one server.

    Args:
        name: dotted; its figures begin with it in limits.toml.
        title: what is asked.
        server: a name of bench.run's servers.
        jobs: by label.
        figures: numbers from the series, by name.
        rounds: how often each job runs.
    """

    name: str
    title: str
    server: str
    jobs: Mapping[str, SparkJob]
    figures: Figures
    rounds: int = 3

    def shortened(self) -> SparkPoint:
        """The same with one round of a tenth of the rows."""
        jobs = {
            label: dataclasses.replace(job, row_count=max(job.row_count // 10, 50))
            for label, job in self.jobs.items()
        }
        return dataclasses.replace(self, jobs=jobs, rounds=1)


def all_points() -> list[SparkPoint]:
    """Every point, those of one server together, what the goals are about first."""
    found = []
    for server in ("kafka", "discard"):
        found.append(_sinks(server, 100, 1))
        found += [_codec(server, codec) for codec in _CODECS]
        found += [_sinks(server, 1000, 1), _sinks(server, 100, 2), _sinks(server, 1000, 2)]
        found += [_json(server), _tasks(server), _micro_batches(server)]
    return found


def _sinks(server: str, value_bytes: int, cores: int) -> SparkPoint:
    row_count = _ROWS[value_bytes]

    def job(sink: str, settings: Mapping[str, str] | None = None) -> SparkJob:
        return SparkJob(sink, row_count, value_bytes, cores, dict(settings or {}))

    size = "100B" if value_bytes == 100 else "1kB"
    return SparkPoint(
        f"{server}.{size}.local{cores}",
        f"rows of {size} in local[{cores}]",
        server,
        {
            OURS: job("fastprod"),
            JVM: job("jvm"),
            JVM_TUNED: job("jvm", _TUNED),
            FOREACH: dataclasses.replace(job("foreach"), row_count=_FOREACH_ROWS),
            COUNTING: job("count"),
        },
        lambda series: _against_jvm(series, _PROMISED[server]),
    )


def _against_jvm(series: Mapping[str, SparkSeries], promised: float) -> dict[str, float]:
    theirs = max((series[JVM], series[JVM_TUNED]), key=lambda each: each.rate_per_s)
    found = _against(theirs, series, promised)
    found["foreach_ratio"] = series[OURS].rate_per_s / series[FOREACH].rate_per_s
    return found


def _against(
    theirs: SparkSeries, series: Mapping[str, SparkSeries], promised: float
) -> dict[str, float]:
    ours, counting = series[OURS], series[COUNTING]
    goal_per_s = min(promised * theirs.rate_per_s, _OF_COUNTING * counting.rate_per_s)
    return {
        "rate_ratio": ours.rate_per_s / theirs.rate_per_s,
        "cpu_ratio": ours.cpu_us / theirs.cpu_us,
        "of_counting": ours.rate_per_s / counting.rate_per_s,
        "of_promised": ours.rate_per_s / goal_per_s,
    }


def _codec(server: str, codec: str) -> SparkPoint:
    packed = {"compression.type": codec}
    ours = SparkJob("fastprod", _ROWS[100], settings=packed)
    return SparkPoint(
        f"{server}.{codec}.local1",
        f"rows of 100B in local[1], {codec}",
        server,
        {
            OURS: ours,
            JVM: dataclasses.replace(ours, sink="jvm"),
            JVM_TUNED: dataclasses.replace(ours, sink="jvm", settings=packed | _TUNED),
        },
        _against_packing_jvm,
    )


def _against_packing_jvm(series: Mapping[str, SparkSeries]) -> dict[str, float]:
    ours = series[OURS]
    theirs = max((series[JVM], series[JVM_TUNED]), key=lambda each: each.rate_per_s)
    return {
        "rate_ratio": ours.rate_per_s / theirs.rate_per_s,
        "cpu_ratio": ours.cpu_us / theirs.cpu_us,
    }


def _json(server: str) -> SparkPoint:
    ours = SparkJob("json", _JSON_ROWS)
    return SparkPoint(
        f"{server}.json.local1",
        "rows of six typed columns as JSON in local[1]",
        server,
        {
            OURS: ours,
            TO_JSON: dataclasses.replace(ours, sink="to_json"),
            COUNTING: dataclasses.replace(ours, sink="count_columns"),
        },
        lambda series: _against(series[TO_JSON], series, _PROMISED_JSON),
    )


def _tasks(server: str) -> SparkPoint:
    return SparkPoint(
        f"{server}.tasks.local1",
        "jobs of 50 tasks with a row each in local[1], time a task",
        server,
        {OURS: SparkJob("tasks", 500)},
        _median_ms,
    )


def _micro_batches(server: str) -> SparkPoint:
    return SparkPoint(
        f"{server}.micro_batches.local1",
        "micro-batches of 8 partitions with a row each in local[1], time of the sink's part",
        server,
        {OURS: SparkJob("micro-batches", 50)},
        _median_ms,
    )


def _median_ms(series: Mapping[str, SparkSeries]) -> dict[str, float]:
    return {"median_ms": series[OURS].median_ms}
