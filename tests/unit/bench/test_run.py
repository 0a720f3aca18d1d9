"""bench.run --accept: what is measured, what is kept for the next run, and the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import accept
from bench import budget, report, run
from bench.servers import servers

BOUNDS = """
[limit]
"kafka.one.rate" = { at_least = 2.0 }
[aim]
"kafka.two.rate" = { at_least = 2.0 }
"""
BOTH = ["kafka.one", "kafka.two"]


class FakePoint:
    """A point that is "measured" as `results` says."""

    server = "kafka"

    def __init__(self, name: str, results: dict[str, float], measured: list[str]) -> None:
        self.name = name
        self._results = results
        self._measured = measured

    def measured(self, server: object, say: Callable[[str], None]) -> list[dict[str, float]]:
        self._measured.append(self.name)
        return [{"rate": self._results[self.name]}]

    def figures(self, series: dict[str, float]) -> dict[str, float]:
        return series


class Bench:
    """The command over two points; `starts` counts those of their server."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results = dict.fromkeys(BOTH, 3.0)
        self.measured: list[str] = []
        self.starts = 0
        self.bounds = folder / "budget.toml"
        self.bounds.write_text(BOUNDS)
        points = [FakePoint(name, self.results, self.measured) for name in BOTH]
        monkeypatch.setattr(run, "all_points", lambda: points)
        monkeypatch.setattr(servers, "SERVERS", {"kafka": self._server})
        monkeypatch.setattr(run, "_KEPT", folder / "logs" / "kept.json")
        monkeypatch.setattr(run, "_bounds", lambda: budget.read_bounds(self.bounds))
        monkeypatch.setattr(report, "machine", dict)
        monkeypatch.setattr(report, "table", lambda point, *_: f"{point.name}: a table")
        self._monkeypatch = monkeypatch
        self.sources("first")

    def sources(self, fingerprint: str) -> None:
        self._monkeypatch.setattr(run, "_sources", lambda: fingerprint)

    @contextlib.contextmanager
    def _server(self) -> Iterator[SimpleNamespace]:
        self.starts += 1
        yield SimpleNamespace(name="a server")

    def __call__(self) -> tuple[int, list[str]]:
        """The exit code, and the points that were measured."""
        self.measured.clear()
        return run.main(["--accept"]), list(self.measured)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_finished_point_is_not_measured_again_for_the_same_sources(bench: Bench) -> None:
    assert bench() == (0, BOTH)
    assert bench() == (0, [])
    assert bench.starts == 1
    bench.sources("second")
    assert bench() == (0, BOTH)


def test_what_was_measured_is_kept_if_a_later_point_fails(bench: Bench) -> None:
    del bench.results["kafka.two"]
    with pytest.raises(KeyError):
        bench()
    bench.results["kafka.two"] = 3.0
    assert bench() == (0, ["kafka.two"])


def test_a_point_that_missed_a_limit_is_measured_again_and_says_so(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.results["kafka.one"] = 1.99
    assert bench() == (1, BOTH)
    assert "MISSED limit  kafka.one.rate = 1.990, at least 2" in capsys.readouterr().out
    bench.results["kafka.one"] = 2.0
    assert bench() == (0, ["kafka.one"])
    assert "missed a bound before, tries: 2" in capsys.readouterr().out


def test_an_aim_that_is_missed_is_told_and_fails_nothing(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.results["kafka.two"] = 1.99
    assert bench() == (0, BOTH)
    assert "MISSED aim    kafka.two.rate = 1.990, at least 2" in capsys.readouterr().out
    assert bench() == (0, [])


def test_other_bounds_are_held_against_what_was_measured_before(bench: Bench) -> None:
    bench.results["kafka.two"] = 1.99
    assert bench() == (0, BOTH)
    bench.bounds.write_text(BOUNDS.replace("[aim]\n", ""))
    assert bench() == (1, ["kafka.two"])


@pytest.mark.parametrize("beside", ["--quick", "--only=kafka", "--json=file", "--plots=folder"])
def test_accept_takes_nothing_beside_it(bench: Bench, beside: str) -> None:
    with pytest.raises(SystemExit):
        run.main(["--accept", beside])
    assert bench.measured == []


def test_the_bounds_are_no_source_of_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(root: Path, step: accept.Step, without: set[Path]) -> str:
        return f"{step.name} without {', '.join(map(str, without))}"

    monkeypatch.setattr(accept, "fingerprint", found)
    assert run._sources() == "peers without bench/budget.toml"
