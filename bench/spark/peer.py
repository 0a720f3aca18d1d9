"""One run of one sink: a Spark session of its own, a warm-up, the clock, and what it took."""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_jars
from bench.free_memory import touch_free_memory
from bench.machine_load import MachineLoad, wait_until_quiet
from bench.spark.job import SparkJob, SparkOutcome
from bench.spark.sinks import SINKS
from fastprod.spark.session import SETTINGS
from support.processes import process_tree

_TOUCHED_BYTES = 4 << 30
_QUIET_TIMEOUT_S = 5.0
_TEXT_BYTES = 2_000_000
_STEP_BYTES = 7919  # a prime: rows that follow each other have nothing in common
_TYPED_COLUMNS = (
    "id",
    "cast(id % 1000 as int) user",
    "id % 100000 / 100 amount",
    "id % 3 = 0 paid",
    "concat('/orders/', id % 977) path",
    "timestamp_micros(1700000000000000 + id * 1000) at",
)
_TASKS_A_JOB = 50
_MICRO_BATCH_PARTITIONS = 8
_WARM_JOBS = 10
_WARM_BATCHES = 10
_BATCH_TIMEOUT_S = 120.0


def run(job: SparkJob) -> SparkOutcome:
    """Do the job in a session of its own."""
    with tempfile.TemporaryDirectory(prefix="fastprod-spark-") as folder:
        spark = _session(job, Path(folder))
        try:
            if job.sink == "tasks":
                return _timed_tasks(spark, job)
            if job.sink == "micro-batches":
                return _timed_micro_batches(spark, job, Path(folder))
            return _timed_sink(spark, job)
        finally:
            spark.stop()


def _session(job: SparkJob, folder: Path) -> SparkSession:
    builder = SparkSession.Builder().master(f"local[{job.cores}]").appName("fastprod-bench")
    for name, value in {
        **SETTINGS,
        "spark.jars": ",".join(map(str, spark_jars.resolve())),
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # A number as eight bytes, without a detour through text.
        "spark.sql.ansi.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _rows(spark: SparkSession, job: SparkJob, row_count: int) -> DataFrame:
    """Keys of 8 bytes; values that are pieces of a text: no work to make, some to compress.

    Where they are to be JSON, six columns of different types instead.
    """
    numbered = spark.range(row_count, numPartitions=job.cores)
    if job.has_columns:
        return numbered.selectExpr(*_TYPED_COLUMNS)
    start = f"cast(id * {_STEP_BYTES} % {_TEXT_BYTES - job.value_bytes} as int) + 1"
    piece = F.substring(F.lit(_text()), F.expr(start), F.lit(job.value_bytes))
    return numbered.select(F.expr("cast(id as binary)").alias("key"), piece.alias("value"))


def _text() -> bytearray:
    """Lines of a log, about as compressible as such lines are."""
    choose = random.Random("text")
    words = [f"{choose.getrandbits(24):x}" for _ in range(3000)]
    found = bytearray()
    while len(found) < _TEXT_BYTES:
        found += (
            f'{{"ts": {1_700_000_000_000 + choose.getrandbits(36)}, "user": "{choose.choice(words)}'
            f'", "path": "/{choose.choice(words)}/{choose.choice(words)}", '
            f'"ms": {choose.randrange(3000)}, "ok": true}}\n'
        ).encode()
    return found[:_TEXT_BYTES]


class _Clock:
    """Measures driver, JVM and workers, and what others take meanwhile."""

    def __init__(self, job: SparkJob) -> None:
        touch_free_memory(_TOUCHED_BYTES)
        wait_until_quiet(job.server_pids, _QUIET_TIMEOUT_S, _cpu_s)
        self._load = MachineLoad(job.server_pids, _cpu_s)
        self._before = process_tree.cpu_s_by_program(os.getpid())
        self._began_s = time.perf_counter()

    def outcome(self, row_count: int, median_ms: float | None = None) -> SparkOutcome:
        wall_s = time.perf_counter() - self._began_s
        foreign_share = self._load.foreign_share()
        used = process_tree.cpu_s_by_program(os.getpid())
        used_s = {name: used[name] - self._before.get(name, 0.0) for name in used}
        return SparkOutcome(
            row_count,
            wall_s,
            sum(used_s.values()),
            sum(each for name, each in used_s.items() if name.startswith("python")),
            sum(each.peak_bytes for each in process_tree.at_and_below(os.getpid())),
            foreign_share,
            median_ms,
        )


def _cpu_s() -> float:
    return sum(process_tree.cpu_s_by_program(os.getpid()).values())


def _timed_sink(spark: SparkSession, job: SparkJob) -> SparkOutcome:
    write = SINKS[job.sink]
    write(_rows(spark, job, job.warm_row_count), job)
    rows = _rows(spark, job, job.row_count)
    clock = _Clock(job)
    write(rows, job)
    return clock.outcome(job.row_count)


def _timed_tasks(spark: SparkSession, job: SparkJob) -> SparkOutcome:
    """Jobs of many tasks with a row each: what a task costs besides its rows."""

    def write() -> None:
        rows = spark.range(_TASKS_A_JOB, numPartitions=_TASKS_A_JOB)
        SINKS["fastprod"](rows.selectExpr("cast(id as binary) value"), job)

    for _ in range(_WARM_JOBS):
        write()
    clock = _Clock(job)
    took_ms = [_seconds(write) * 1000 / _TASKS_A_JOB for _ in range(job.row_count // _TASKS_A_JOB)]
    return clock.outcome(job.row_count, statistics.median(took_ms))


def _seconds(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _timed_micro_batches(spark: SparkSession, job: SparkJob, folder: Path) -> SparkOutcome:
    """Micro-batches of a row a partition: the time that Spark spends in the sink's part."""
    source = spark.readStream.format("rate-micro-batch").option(
        "rowsPerBatch", _MICRO_BATCH_PARTITIONS
    )
    rows = source.option("numPartitions", _MICRO_BATCH_PARTITIONS).load()
    writer = rows.selectExpr("cast(value as binary) value").writeStream.format("fastprod")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.option("kafka.bootstrap.servers", job.bootstrap_servers)
    query = writer.option("topic", job.topic).start()
    try:
        batch_count = _wait_for_batch(query, _WARM_BATCHES)
        clock = _Clock(job)
        _wait_for_batch(query, batch_count + job.row_count)
        took_ms = [
            float(each["durationMs"]["addBatch"])
            for each in query.recentProgress
            if each["batchId"] > batch_count and "addBatch" in each["durationMs"]
        ]
        return clock.outcome(len(took_ms), statistics.median(took_ms))
    finally:
        query.stop()


def _wait_for_batch(query: object, number: int) -> int:
    """Block until the query has ended the micro-batch with that number; return its last."""
    deadline_s = time.monotonic() + _BATCH_TIMEOUT_S
    while True:
        failure = query.exception()  # type: ignore[attr-defined]
        if failure is not None:
            raise failure
        done = query.lastProgress  # type: ignore[attr-defined]
        if done is not None and done["batchId"] >= number:
            return int(done["batchId"])
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"micro-batch {number} is not done after {_BATCH_TIMEOUT_S} s")
        time.sleep(0.05)


if __name__ == "__main__":
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    found = run(SparkJob.from_json(sys.argv[1]))
    print(f"\n{found.to_json()}", flush=True)
