"""Large writes: memory stays bounded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fastprod.spark import write
from kept_process import KeptProcess
from support.processes.process_tree import MemoryWatch
from support.processes.scale import scaled
from support.records.readers import end_offsets

MB = 1_000_000
SMALL_ROWS, FULL_ROWS = 200_000, 100_000_000
ROWS_A_TASK = 2_000_000
# The driver may have 1 GB of heap; a worker has 64 MB of buffer.memory and one batch of Arrow.
MOST_BYTES = {"java": 1_700 * MB, "worker": 450 * MB, "broker": 400 * MB}


@pytest.mark.parametrize(
    "rows",
    [
        SMALL_ROWS,
        pytest.param(
            scaled(FULL_ROWS, at_least=SMALL_ROWS),
            marks=[pytest.mark.long, pytest.mark.timeout(3_000)],
        ),
    ],
)
def test_a_big_write_needs_no_more_memory_than_a_small_one(
    rows: int, spark: SparkSession, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "fastprod", "broker", "--port", "0", "--discard")
    broker = KeptProcess("fastprod broker", (*command, "--topic", "t:4"), tmp_path / "log")
    try:
        address = broker.wait_for_output(r"listening on ([^;\s]+);", 60.0)[1]
        frame = spark.range(0, rows, 1, max(2, rows // ROWS_A_TASK)).selectExpr(
            f"concat(lpad(string(id), 12, '0'), '{'x' * 88}') value"
        )
        with MemoryWatch(os.getpid(), broker.pid) as memory:
            result = write(frame, bootstrap_servers=address, topic="t")
        told = {kind: f"{peak // MB:,} MB" for kind, peak in sorted(memory.peak_bytes.items())}
        print(
            f"{rows:,} rows, {result.bytes / 1e9:.2f} GB in {result.seconds:.1f} s, "
            f"{result.rows / result.seconds:,.0f} rows/s; peaks {told}"
        )
        assert (result.rows, result.bytes) == (rows, rows * 100)
        assert sum(end_offsets(address, "t").values()) == rows
        for kind, most in MOST_BYTES.items():
            assert 0 < memory.peak_bytes[kind] < most, kind
    finally:
        broker.stop()
