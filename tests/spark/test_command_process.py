"""`fastprod spark-load` as people start it: a process with a Java of its own, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet

from fastprod.broker.broker import Broker
from readers import end_offsets, read_with_confluent

PATIENCE_S = 120.0
ROOT = Path(__file__).parents[2]


def test_ctrl_c_on_a_terminal_ends_everything_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"value": [f"v{number}" for number in range(1000)]})
    pyarrow.parquet.write_table(table, path, row_group_size=10)
    with Broker(topics={"t": 1}) as broker:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "fastprod", "spark-load", str(path), "--topic", "t"),
                *("-b", broker.bootstrap_servers, "--partitions", "50", "--master", "local[1]"),
                *("--max-mb-per-second", "0.0005", "--job-id", "j", "--summary", "-"),
                *("--state-dir", str(tmp_path / "state"), "--progress", "none"),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A terminal sends Ctrl-C to the whole group: to Java too.
            start_new_session=True,
        )
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            done = tmp_path / "state" / "j" / "done"
            while not (done.is_dir() and any(done.iterdir())):
                assert process.poll() is None
                assert time.monotonic() < deadline_s
                time.sleep(0.2)
            os.killpg(process.pid, signal.SIGINT)
            out, told = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        written = read_with_confluent(broker.bootstrap_servers, "t", end_offsets_of(broker))
    assert process.returncode == 130, told
    assert told.startswith("fastprod spark-load: interrupted: ")
    assert told.count("\n") == 1
    summary = json.loads(out)
    assert summary["outcome"] == "interrupted"
    assert 0 < summary["rows"] <= len(written[0]) < 1000


def end_offsets_of(broker: Broker) -> dict[int, int]:
    """What is there now: a worker that is being ended may still send."""
    return end_offsets(broker.bootstrap_servers, "t")
