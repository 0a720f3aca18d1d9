"""SparkSink: one of the two sinks for Kafka that a DataFrame can be written to."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import spark_jars
from support.records.readers import ReadRecord, read_with_confluent

STREAM_S = 400


@dataclass
class Outcome:
    """How a write ended: `error` is what Spark raised, whole; None: well."""

    error: str | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class SparkSink:
    """Writes by one of the sinks, "kafka" or "fastprod", to one cluster.

    Args:
        name: what `format` is given.
        spark: the session.
        bootstrap_servers: the cluster.
    """

    name: str
    spark: SparkSession
    bootstrap_servers: str

    @property
    def is_ours(self) -> bool:
        return self.name == "fastprod"

    def write(
        self, rows: DataFrame | str, mode: str | None = None, **options: str | None
    ) -> Outcome:
        """Write a DataFrame, or what SQL gives; None as an option's value leaves it out.

        In the names of options two underscores stand for a dot.  The mode is the sink's default,
        which a Python data source does not have.
        """
        frame = self.spark.sql(rows) if isinstance(rows, str) else rows
        writer = frame.write.format(self.name)
        if mode or self.is_ours:
            writer = writer.mode(mode or "append")
        for name, value in self._options(options).items():
            writer = writer.option(name, value)
        try:
            writer.save()
        except (PySparkException, Py4JJavaError) as error:
            return Outcome(str(error))
        return Outcome()

    def stream(
        self,
        rows: DataFrame,
        checkpoint: Path,
        output_mode: str = "append",
        **options: str | None,
    ) -> Outcome:
        """Write all that a streaming DataFrame has now."""
        writer = rows.writeStream.format(self.name).outputMode(output_mode)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        for name, value in self._options(options).items():
            writer = writer.option(name, value)
        try:
            query = writer.start()
        except (PySparkException, Py4JJavaError) as error:
            return Outcome(str(error))
        try:
            assert query.awaitTermination(STREAM_S), "the query did not end"
        except PySparkException as error:
            return Outcome(str(error))
        finally:
            query.stop()
        return Outcome()

    def _options(self, options: dict[str, str | None]) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.bootstrap_servers} | {
            name.replace("__", "."): value for name, value in options.items()
        }
        return {name: value for name, value in given.items() if value is not None}

    def records(self, topic: str) -> list[ReadRecord]:
        """All records of a topic, by another client, ordered by partition and offset."""
        found = read_with_confluent(self.bootstrap_servers, topic)
        return [record for partition in sorted(found) for record in found[partition]]


def reports(path: Path) -> list[dict[str, Any]]:
    """What `fastprod.report.path` has got, one object a commit."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@contextlib.contextmanager
def spark_session(jars: list[Path], folder: Path) -> Iterator[SparkSession]:
    """A local session with two tasks at once, two attempts each, on loopback."""
    builder = SparkSession.Builder().master("local[2,2]").appName("fastprod-tests")
    for name, value in {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": spark_jars.java_options(),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
