"""Contests: who is left out, who runs again, and what the verdict is of."""

from __future__ import annotations

from typing import Any

import pytest

from bench import series as series_module
from bench.contests.contest import P99, RATE, Contest, hold
from bench.fresh_process import Contender, Run
from bench.meter import Outcome
from bench.series import Series
from bench.workload import Workload

CONTEST = Contest("ours", P99, hopeless=2.0, finalists=2, rounds=2)


def contender(label: str) -> Contender:
    return Contender(label, "peer", Workload("latency", 100))


def run(p99_us: float, wall_s: float = 1.0) -> Run:
    outcome = Outcome(
        acknowledged_count=100,
        warm_count=0,
        value_bytes=10_000,
        wall_s=wall_s,
        cpu_s=0.1,
        baseline_bytes=1,
        peak_bytes=1,
        latencies_us=[p99_us],
    )
    return Run(outcome, 0.0)


def series(label: str, *runs: Run) -> Series:
    return Series(contender(label), list(runs))


def test_who_is_far_behind_the_best_goes_out_but_never_the_judged_one() -> None:
    found = {
        "ours": series("ours", run(900)),
        "best": series("best", run(100)),
        "near": series("near", run(200)),
        "far": series("far", run(201)),
    }
    assert CONTEST.hopeful(found) == {"ours", "best", "near"}


def test_the_best_are_those_of_the_least_latency_or_of_the_highest_rate() -> None:
    found = {
        "ours": series("ours", run(1, 0.1)),
        "a": series("a", run(30, 3.0), run(10, 1.0), run(10, 1.0)),
        "b": series("b", run(20, 2.0)),
        "c": series("c", run(40, 0.5)),
    }
    assert CONTEST.best(found) == ["a", "b"]
    assert Contest("ours", RATE, finalists=1).best(found) == ["c"]


def test_the_verdict_is_by_rounds_beside_whom_it_is_worst() -> None:
    found = {
        "ours": series("ours", run(100, 1.0), run(300, 3.0), run(120, 2.0)),
        "a": series("a", run(100, 1.0), run(400, 3.0), run(100, 1.0)),
        "b": series("b", run(50, 1.1), run(200, 3.3), run(100, 2.2)),
    }
    assert CONTEST.rival(found, P99) == ("b", 1.5)
    assert CONTEST.rival(found, RATE) == ("a", 1.0)


def test_the_best_run_again_and_their_first_rounds_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    # The lucky one was good in the first rounds alone.
    took = {"ours": [100] * 5, "lucky": [50] * 3 + [200] * 2, "good": [90] * 5, "far": [500]}

    def next_run(each: Contender, server: Any) -> Run:
        order.append(each.label)
        return run(took[each.label].pop(0))

    class Server:
        gets_faster = False

    monkeypatch.setattr(series_module, "run", next_run)
    contenders = [contender(label) for label in took]
    everybody, finals = hold(CONTEST, contenders, Server(), 3, lambda _: None)  # type: ignore[arg-type]
    assert order[:4] == ["ours", "lucky", "good", "far"]
    assert order[4:10] == ["good", "lucky", "ours", "ours", "lucky", "good"]
    assert order[10:] == ["ours", "lucky", "good", "good", "lucky", "ours"]
    assert [len(each.runs) for each in everybody.values()] == [3, 3, 3, 1]
    assert list(finals) == ["ours", "lucky", "good"]
    assert CONTEST.rival(finals, P99) == ("good", 100 / 90)
