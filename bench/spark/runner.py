"""Runs the jobs of a point in turns, each in a process of its own, and looks what arrived."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.fresh_process import WrongAnswer
from bench.machine_load import FOREIGN_LIMIT
from bench.servers.server import Server, end_offset
from bench.spark.job import SparkJob, SparkOutcome
from bench.spark.points import SparkPoint, SparkSeries

RUN_TIMEOUT_S = 600.0
_MODULE = "bench.spark.peer"


def run(job: SparkJob, server: Server, log_path: Path) -> SparkOutcome:
    """Run a job once.

    Raises:
        WrongAnswer: it failed, or the topic has not what was written.

    Blocks: until it is done, at most RUN_TIMEOUT_S.
    """
    topic = server.new_topic()
    placed = dataclasses.replace(
        job,
        bootstrap_servers=server.bootstrap_servers,
        topic=topic,
        server_pids=server.pids,
    )
    try:
        outcome = SparkOutcome.from_json(_run_peer(placed, log_path))
        if job.delivers:
            arrived = end_offset(server.bootstrap_servers, [topic])
            expected = job.row_count + job.warm_row_count
            if arrived != expected:
                raise WrongAnswer(f"{job.sink}: {expected:,} rows written, {arrived:,} arrived")
        return outcome
    finally:
        server.drop_topic(topic)


def run_in_turns(
    point: SparkPoint, server: Server, log_path: Path, say: Callable[[str], None]
) -> dict[str, SparkSeries]:
    """Run each job once a round; a run that others disturbed is discarded, and made again, once.

    Where no run was undisturbed all of them count, and the series says so.
    """
    runs: dict[str, list[SparkOutcome]] = {label: [] for label in point.jobs}
    for number in range(1, point.rounds + 1):
        for label, job in point.jobs.items():
            for _ in range(2):
                say(f"{point.name}: round {number} of {point.rounds}: {label}")
                outcome = run(job, server, log_path)
                runs[label].append(outcome)
                if outcome.foreign_share <= FOREIGN_LIMIT:
                    break
                say(f"{label}: others used {outcome.foreign_share:.0%} of the machine\n")
    return {label: _series(job, runs[label]) for label, job in point.jobs.items()}


def _series(job: SparkJob, runs: list[SparkOutcome]) -> SparkSeries:
    quiet = [run for run in runs if run.foreign_share <= FOREIGN_LIMIT]
    if not quiet:
        return SparkSeries(job, runs, 0, is_disturbed=True)
    return SparkSeries(job, quiet, len(runs) - len(quiet), is_disturbed=False)


def _run_peer(job: SparkJob, log_path: Path) -> str:
    command = [sys.executable, "-m", _MODULE, job.to_json()]
    with log_path.open("ab") as log:
        log.write(f"\n--- {job.to_json()}\n".encode())
        log.flush()
        log_start = log.tell()
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=RUN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WrongAnswer(f"{job.sink}: not done within {RUN_TIMEOUT_S} s") from error
    if done.returncode != 0:
        with log_path.open("rb") as log:
            log.seek(log_start)
            told = log.read().decode(errors="replace")
        raise WrongAnswer(f"{job.sink} ended with code {done.returncode}:\n{told[-3000:]}")
    return done.stdout.strip().splitlines()[-1]
