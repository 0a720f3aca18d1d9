"""bench.spark.runner: which runs count."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.fresh_process import WrongAnswer
from bench.servers.server import Server
from bench.spark import runner
from bench.spark.job import SparkJob, SparkOutcome
from bench.spark.points import SparkPoint, SparkSeries
from support.spark.series import LOUD, QUIET, outcome

JOB = SparkJob("fastprod", 1000)
POINT = SparkPoint("kafka.point", "a point", "kafka", {"ours": JOB}, lambda _: {}, rounds=2)


def in_turns(
    monkeypatch: pytest.MonkeyPatch, runs: Sequence[SparkOutcome]
) -> tuple[SparkSeries, int]:
    """The series that comes of these runs, and how many of them were not made."""
    left = list(runs)
    monkeypatch.setattr(runner, "run", lambda *_: left.pop(0))
    found = runner.run_in_turns(POINT, cast(Server, None), Path("log"), lambda _: None)
    return found["ours"], len(left)


def test_quiet_runs_are_made_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [outcome(foreign_share=QUIET)] * 3
    found, left = in_turns(monkeypatch, runs)
    assert (found.runs, found.discarded_count, found.is_disturbed) == (runs[:2], 0, False)
    assert left == 1


def test_a_disturbed_run_is_discarded_and_made_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = outcome(2e6, foreign_share=QUIET)
    loud = outcome(9e6, foreign_share=LOUD)
    found, left = in_turns(monkeypatch, [loud, quiet, loud, loud, quiet])
    assert (found.runs, found.discarded_count, found.is_disturbed) == ([quiet], 3, False)
    assert left == 1


def test_a_series_without_a_quiet_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = in_turns(monkeypatch, [outcome(foreign_share=LOUD)] * 4)
    assert (len(found.runs), found.is_disturbed) == (4, True)


class Topics:
    """A server that only has topics."""

    bootstrap_servers = "nowhere:1"
    pids = (1, 2)

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def new_topic(self) -> str:
        return "topic"

    def drop_topic(self, topic: str) -> None:
        self.dropped.append(topic)


def run_once(
    monkeypatch: pytest.MonkeyPatch, job: SparkJob, arrived: int, code: int, log: Path
) -> Topics:
    """One run whose process ends with the code, and what arrived in the topic."""

    def peer(command: list[str], *, stderr: Any, **_: object) -> SimpleNamespace:
        stderr.write(b"what went wrong\n")
        placed = SparkJob.from_json(command[-1])
        assert (placed.topic, placed.server_pids) == ("topic", [1, 2])
        return SimpleNamespace(returncode=code, stdout=f"noise\n{outcome().to_json()}\n")

    server = Topics()
    monkeypatch.setattr(subprocess, "run", peer)
    monkeypatch.setattr(runner, "end_offset", lambda *_: arrived)
    try:
        assert runner.run(job, cast(Server, server), log) == outcome()
    finally:
        assert server.dropped == ["topic"]
    return server


def test_what_arrived_is_what_was_written_with_the_warm_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = JOB.row_count + JOB.warm_row_count
    run_once(monkeypatch, JOB, everything, 0, tmp_path / "log")
    run_once(monkeypatch, SparkJob("count", 1000), 0, 0, tmp_path / "log")
    with pytest.raises(WrongAnswer, match=r"2,000 rows written, 1,999 arrived"):
        run_once(monkeypatch, JOB, everything - 1, 0, tmp_path / "log")


def test_a_run_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(WrongAnswer, match=r"code 3:\nwhat went wrong"):
        run_once(monkeypatch, JOB, 0, 3, tmp_path / "log")
