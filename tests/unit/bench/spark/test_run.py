"""bench.spark.run: what is measured, what is kept for the next run, and the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import accept
from bench import report
from bench.budget import BudgetError
from bench.fresh_process import WrongAnswer
from bench.servers import servers
from bench.spark import run
from bench.spark.job import SparkJob
from bench.spark.points import SparkPoint, SparkSeries
from support.spark.series import LOUD, ROWS, outcome, series


def ratio(found: Mapping[str, SparkSeries]) -> dict[str, float]:
    return {"rate_ratio": found["ours"].rate_per_s / 1e6}


class Bench:
    """The command over two points, each of them "measured" as `results` says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: dict[str, SparkSeries | WrongAnswer] = {}
        self.measured: list[str] = []
        self.limits = folder / "limits.toml"
        self.limits.write_text('[limit]\n"kafka.one.rate_ratio" = { at_least = 2.0 }\n')
        jobs = {"ours": SparkJob("fastprod", ROWS)}
        points = [
            SparkPoint(name, name, "kafka", jobs, ratio) for name in ("kafka.one", "kafka.two")
        ]
        monkeypatch.setattr(run, "all_points", lambda: points)
        monkeypatch.setattr(run, "run_in_turns", self._measure)
        monkeypatch.setattr(servers, "SERVERS", {"kafka": self._server})
        monkeypatch.setattr(run, "LIMITS_FILE", self.limits)
        monkeypatch.setattr(run, "_LOGS", folder)
        monkeypatch.setattr(run, "_LOG", folder / "log")
        monkeypatch.setattr(run, "_STATE", folder / "state.json")
        monkeypatch.setattr(report, "machine", dict)
        self._monkeypatch = monkeypatch
        self.sources("first")

    def sources(self, fingerprint: str) -> None:
        self._monkeypatch.setattr(run, "_sources", lambda: fingerprint)

    @contextlib.contextmanager
    def _server(self) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(name="a server")

    def _measure(self, point: SparkPoint, *_: object) -> dict[str, SparkSeries]:
        self.measured.append(point.name)
        found = self.results.get(point.name, series(outcome(2e6)))
        if isinstance(found, WrongAnswer):
            raise found
        return {"ours": found}

    def __call__(self, *words: str) -> tuple[int, list[str]]:
        """The exit code, and the points that were measured."""
        self.measured.clear()
        return run.main(list(words)), list(self.measured)


BOTH = ["kafka.one", "kafka.two"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_limit_that_is_missed_is_the_exit_code(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench() == (0, BOTH)
    bench.results["kafka.one"] = series(outcome(1.99e6))
    assert bench("--again") == (1, BOTH)
    assert "MISSED limit  kafka.one.rate_ratio = 1.990, at least 2" in capsys.readouterr().out


def test_a_limit_whose_figure_nobody_makes_is_missed(bench: Bench) -> None:
    bench.limits.write_text('[limit]\n"kafka.one.rate_ration" = { at_least = 2.0 }\n')
    assert bench() == (1, BOTH)


def test_a_limit_of_an_unknown_point_is_refused_before_anything_is_measured(bench: Bench) -> None:
    bench.limits.write_text('[limit]\n"kafka.three.rate_ratio" = { at_least = 2.0 }\n')
    with pytest.raises(BudgetError, match=r"there is no point kafka\.three"):
        bench()
    assert bench.measured == []


def test_a_point_that_failed_is_passed_over_and_is_due_again(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.results["kafka.two"] = WrongAnswer("2 rows written, 1 arrived")
    assert bench() == (1, BOTH)
    assert "FAILED: kafka.two: 2 rows written, 1 arrived" in capsys.readouterr().out
    del bench.results["kafka.two"]
    assert bench() == (0, ["kafka.two"])


def test_a_finished_point_is_not_measured_again_for_the_same_sources(bench: Bench) -> None:
    assert bench("--only", "kafka.one") == (0, ["kafka.one"])
    assert bench() == (0, ["kafka.two"])
    assert bench() == (0, [])
    assert bench("--quick") == (0, BOTH)
    assert bench("--again") == (0, BOTH)
    bench.sources("second")
    assert bench() == (0, BOTH)


def test_a_limit_is_held_against_what_was_measured_before_too(bench: Bench) -> None:
    bench.results["kafka.one"] = series(outcome(1e6))
    assert bench() == (1, BOTH)
    assert bench() == (1, [])


def test_a_point_that_others_disturbed_is_no_answer_and_is_due_again(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.results["kafka.two"] = series(outcome(foreign_share=LOUD), is_disturbed=True)
    assert bench() == (1, BOTH)
    assert "DISTURBED, its figures are no answer: kafka.two: ours" in capsys.readouterr().out
    del bench.results["kafka.two"]
    assert bench() == (0, ["kafka.two"])


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = {"ours": series(outcome(1.5e6, 0.5, 0.05), outcome(2e6))}
    run.KeptSeries(tmp_path / "state", "sources").keep_series("kafka.one", kept)
    assert run.KeptSeries(tmp_path / "state", "sources").series("kafka.one") == kept
    assert run.KeptSeries(tmp_path / "state", "others").series("kafka.one") is None


def test_the_limits_are_no_source_of_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(root: Path, step: accept.Step, without: set[Path]) -> str:
        return f"{step.name} without {', '.join(map(str, without))}"

    monkeypatch.setattr(accept, "fingerprint", found)
    assert run._sources() == "spark-peers without bench/spark/limits.toml"
