"""Makes the class-data archives with which Kafka and Spark start fast (see java_flags).

`ci/java_archives.py [kafka] [spark]` runs each once, lets it do a little of everything, and has its
JVM write what it loaded. It takes what a few starts take; with the archives at hand, nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import java_flags
import kafka_jars
import spark_jars
from checkout import ROOT
from kafka_cluster import KafkaCluster

_SPARK_TIMEOUT_S = 300.0
_STOP_S = 60.0
_TRAINING = """
import sys
from pathlib import Path
from fastprod.broker import Broker
from fastprod.spark.session import job_session
from pyspark.sql import functions as F

folder = Path(sys.argv[1])
settings = {name: str(folder / name) for name in ("spark.local.dir", "spark.sql.warehouse.dir")}
settings["spark.driver.extraJavaOptions"] = sys.argv[2]
(folder / "in").mkdir()
(folder / "in" / "a.json").write_text('{"value": "a", "time": "2020-01-01T00:00:00Z"}')
with (
    Broker(topics={"t": 1}) as broker,
    job_session("training", master="local[2]", settings=settings) as spark,
):
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "value string, number int")
    rows.write.parquet(str(folder / "parquet"))
    sink = {"topic": "t", "kafka.bootstrap.servers": broker.bootstrap_servers}
    written = spark.read.parquet(str(folder / "parquet")).select("value").write
    written.format("fastprod").options(**sink).mode("append").save()
    lines = spark.readStream.schema("value string, time timestamp").json(str(folder / "in"))
    counted = lines.withWatermark("time", "1 hour").groupBy(F.window("time", "1 minute")).count()
    stream = counted.selectExpr("string(count) value").writeStream.format("fastprod")
    stream = stream.options(**sink, checkpointLocation=str(folder / "checkpoint"))
    query = stream.outputMode("append").trigger(availableNow=True).start()
    assert query.awaitTermination(240)
"""


def make(archive: Path, write: Callable[[Path], object]) -> None:
    """Have an archive written, and put it where it belongs when it is whole.

    Raises: RuntimeError when it was not written.
    """
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=archive.parent) as folder:
        part = Path(folder) / archive.name
        write(part)
        if not part.exists():
            raise RuntimeError(f"Java ended, but wrote no archive {archive}")
        part.rename(archive)


def write_kafka(path: Path) -> None:
    """Start Kafka, make a topic, and end it."""
    with KafkaCluster(1, java=java_flags.writing(path)) as kafka:
        kafka.create_topic("t")
        kafka.stop_node(1, _STOP_S)


def write_spark(path: Path) -> None:
    """Write rows and a stream by our sink, and end the driver.

    Raises: RuntimeError with what it printed, when it failed.
    """
    with tempfile.TemporaryDirectory(prefix="fp-java-") as folder:
        options = " ".join(java_flags.writing(path))
        done = subprocess.run(
            [sys.executable, "-c", _TRAINING, folder, options],
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SPARK_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"the training of Spark failed:\n{(done.stdout + done.stderr)[-3000:]}")


def main(names: Sequence[str]) -> int:
    """Make those that are missing, of all or of these names; return the exit code."""
    java = kafka_jars.program("java")
    every = {
        "kafka": (kafka_jars.jars, write_kafka),
        "spark": (spark_jars.pyspark_jars, write_spark),
    }
    for name in names or every:
        jars, write = every[name]
        archive = java_flags.archive(java, jars())
        if not archive.exists():
            make(archive, write)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
