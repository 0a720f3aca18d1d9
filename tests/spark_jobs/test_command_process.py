"""`fastprod spark-load` as people start it: a process with a Java of its own, Ctrl-C, a kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import spark_jars
from fastprod.broker.broker import Broker
from support.processes import process_tree
from support.records.readers import end_offsets, read_with_confluent

PATIENCE_S = 400.0
ROOT = Path(__file__).parents[2]
VALUES = [f"v{number}" for number in range(1000)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as broker:
        yield broker


@contextlib.contextmanager
def spark_load(broker: Broker, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command, loading `VALUES` in fifty tasks as job "j"."""
    path = folder / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"value": VALUES}), path, row_group_size=10)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "fastprod", "spark-load", str(path), "--topic", "t"),
            *("-b", broker.bootstrap_servers, "--partitions", "50", "--job-id", "j"),
            *("--state-dir", str(folder / "state"), "--summary", "-", "--progress", "none"),
            *options,
        ],
        cwd=ROOT,
        env=os.environ | spark_jars.submit_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A terminal sends Ctrl-C to the whole group: to Java too.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait; fail if the process ends before."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def test_ctrl_c_on_a_terminal_ends_everything_with_one_line(broker: Broker, tmp_path: Path) -> None:
    done = tmp_path / "state" / "j" / "done"
    slowly = ("--master", "local[1]", "--max-mb-per-second", "0.0005")
    with spark_load(broker, tmp_path, *slowly) as process:
        wait_until(lambda: done.is_dir() and any(done.iterdir()), process)
        os.killpg(process.pid, signal.SIGINT)
        out, told = process.communicate(timeout=PATIENCE_S)
    # What is there now: a worker that is being ended may still send.
    written = read_with_confluent(
        broker.bootstrap_servers, "t", end_offsets(broker.bootstrap_servers, "t")
    )
    assert process.returncode == 130, told
    assert told.startswith("fastprod spark-load: interrupted: ")
    assert told.count("\n") == 1
    summary = json.loads(out)
    assert summary["outcome"] == "interrupted"
    assert 0 < summary["rows"] <= len(written[0]) < 1000


@pytest.mark.slow
def test_workers_killed_amid_a_load_cost_neither_rows_nor_a_second_run(
    broker: Broker, tmp_path: Path
) -> None:
    with spark_load(broker, tmp_path, "--max-mb-per-second", "0.002") as process:
        wait_until(lambda: end_offsets(broker.bootstrap_servers, "t")[0] > 100, process)
        workers = process_tree.spark_workers(process.pid)
        for each in workers:
            each.kill()
        out, told = process.communicate(timeout=PATIENCE_S)
    assert workers
    assert process.returncode == 0, told
    summary = json.loads(out)
    assert (summary["outcome"], summary["rows"]) == ("complete", 1000)
    (records,) = read_with_confluent(broker.bootstrap_servers, "t").values()
    assert {each.value for each in records} == {value.encode() for value in VALUES}
    # Each worker had a task of twenty rows, and tasks are what is repeated.
    assert len(records) <= 1000 + 20 * len(workers)


@pytest.mark.slow
def test_a_java_that_is_killed_is_told_in_one_line_and_exit_code_1(
    broker: Broker, tmp_path: Path
) -> None:
    with spark_load(broker, tmp_path, "--max-mb-per-second", "0.0005") as process:
        wait_until(lambda: end_offsets(broker.bootstrap_servers, "t")[0] > 0, process)
        (java,) = process_tree.java_processes(process.pid, "SparkSubmit")
        java.kill()
        out, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, told
    assert "then: the Java process that Spark runs in has ended" in told
    assert told.count("\n") == 1
    assert json.loads(out)["outcome"] == "failed"
