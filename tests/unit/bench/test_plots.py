"""Plots of what the benchmarks measured."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from xml.etree import ElementTree

from bench import plots
from bench.contests.contest import P99, Contest
from bench.fresh_process import Contender, Run
from bench.meter import Outcome
from bench.point import Point
from bench.series import Series
from bench.workload import Workload


def series(label: str, *latencies_us: float) -> Series:
    outcome = Outcome(
        acknowledged_count=110,
        warm_count=10,
        value_bytes=10_000,
        wall_s=0.5,
        cpu_s=float("nan") if label == "untold" else 0.1,
        baseline_bytes=1,
        peak_bytes=5_000_000,
        latencies_us=list(latencies_us),
    )
    contender = Contender(label, "peer", Workload("latency", 100))
    return Series(contender, [Run(outcome, 0.0), Run(dataclasses.replace(outcome), 0.0)])


def point(*measured: Series) -> Point:
    return Point("latency.mock", "title", "mock", [m.contender for m in measured], lambda _: {})


def texts(path: Path) -> list[str]:
    """What a reader sees written in the picture, which is well-formed and loads nothing."""
    root = ElementTree.parse(path).getroot()
    links = [value for each in root.iter() for name, value in each.items() if "href" in name]
    assert not [each for each in links if not each.startswith("#")]
    return [text.strip() for text in root.itertext() if text.strip()]


def test_rates_cpu_and_memory_are_a_picture_each(tmp_path: Path) -> None:
    measured = {label: series(label) for label in ("ours", "untold")}
    files = plots.draw(point(*measured.values()), measured, tmp_path / "new")
    names = [f"latency.mock.{kind}.svg" for kind in ("rate", "cpu", "memory")]
    assert [each.name for each in files] == names
    for path, value in zip(files, ("200", "1,000", "5"), strict=True):
        seen = texts(path)
        assert {"ours", "untold", value} <= set(seen)


def test_latencies_are_drawn_by_the_share_of_records(tmp_path: Path) -> None:
    measured = {"ours": series("ours", *range(1, 1001)), "theirs": series("theirs", 20, 30, 40)}
    (path,) = plots.draw(point(*measured.values()), measured, tmp_path)
    assert path.name == "latency.mock.latency.svg"
    assert {"ours", "theirs", "50%", "99.9%", "501", "40"} <= set(texts(path))


def test_a_grid_has_a_bar_for_each_cell_that_was_measured(tmp_path: Path) -> None:
    def cell(label: str, took_us: float, linger_ms: int | None, size: int | None) -> Series:
        load = Workload("paced", 100, linger_ms=linger_ms, batch_bytes=size)
        return Series(Contender(label, "peer", load), series(label, took_us).runs)

    cells = [cell("ours", 120, None, None), cell("a", 345, 0, None), cell("b", 67, None, 16_384)]
    contest = Contest("ours", P99)
    drawn = dataclasses.replace(point(*cells), contest=contest)
    (path,) = plots.draw(drawn, {each.contender.label: each for each in cells}, tmp_path)
    assert path.name == "latency.mock.grid.svg"
    seen = set(texts(path))
    assert {"linger_ms default", "linger_ms 0", "120", "345", "67"} <= seen
    assert {"batch_size default", "batch_size 16,384"} <= seen


def test_what_is_imported_later_is_not_looked_for_by_the_plots() -> None:
    assert "pygal" in sys.modules
    assert not [each for each in sys.meta_path if type(each).__module__.startswith("pygal")]
