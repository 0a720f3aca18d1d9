"""The page of the defaults beside a grid of settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.budget import Bound
from bench.contests import grid
from bench.contests.contest import P99, Contest
from bench.fresh_process import Contender, Run
from bench.meter import Outcome
from bench.point import Point
from bench.series import Series
from bench.workload import PACED, Workload

CONTEST = Contest("defaults", P99, hopeless=3, finalists=2, rounds=5)
NAME = "defaults.discard.1000_per_s"


def series(label: str, p99_us: float, linger_ms: int | None, batch_bytes: int | None) -> Series:
    load = Workload(PACED, 100, linger_ms=linger_ms, batch_bytes=batch_bytes)
    outcome = Outcome(
        acknowledged_count=100,
        warm_count=0,
        value_bytes=10_000,
        wall_s=0.5,
        cpu_s=0.1,
        baseline_bytes=1,
        peak_bytes=1,
        latencies_us=[p99_us],
    )
    return Series(Contender(label, "peer", load), [Run(outcome, 0.0)])


MEASURED = {
    "defaults": series("defaults", 120, None, None),
    "linger 0 ms": series("linger 0 ms", 1_000, 0, None),
    "batch 16,384 B": series("batch 16,384 B", 100, None, 16_384),
}


def figures(finals: Mapping[str, Series]) -> dict[str, float]:
    return {"p99_of_best": CONTEST.rival(finals, P99)[1]}


def lines(tmp_path: Path, bound: Bound) -> list[str]:
    contenders = [each.contender for each in MEASURED.values()]
    point = Point(NAME, "a title", "discard", contenders, figures, contest=CONTEST)
    found = grid.Grid(point, "a broker", MEASURED, MEASURED)
    path = grid.write(tmp_path, [found], [bound], {"machine": "2 cores"})
    assert path == tmp_path / "defaults.md"
    return path.read_text().splitlines()


def test_the_page_has_a_verdict_a_table_and_a_picture(tmp_path: Path) -> None:
    page = lines(tmp_path, Bound(f"{NAME}.p99_of_best", "limit", None, 1.5))
    verdict = "discard | 1000 | p99 of a record, us | 120 | batch 16,384 B | 100 | 1.20 |"
    assert f"| {verdict} at most 1.5 |" in page
    assert "| default | 120 | 100 |" in page
    assert "| 0 | 1,000 |  |" in page
    assert f"![a title]({NAME}.grid.svg)" in page
    assert "* machine: 2 cores" in page
    assert "6 runs others used more than 10% of the machine." in page


def test_the_page_tells_a_limit_that_is_missed(tmp_path: Path) -> None:
    page = lines(tmp_path, Bound(f"{NAME}.p99_of_best", "limit", None, 1.1))
    assert [each for each in page if each.endswith("at most 1.1, **missed** |")]
