"""SparkDemo: streams a web server's log into two topics, reads them back and compares."""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fastprod.cli.cluster.own_topic import own_topic
from fastprod.cli.cluster.spark_run import run_in_spark
from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.options.loading import need
from fastprod.cli.options.spark import SparkOptions
from fastprod.cli.output.failure import Interrupted, RecordsFailed
from fastprod.cli.output.report import Report
from fastprod.cli.records.read_back import ForeignReader, installed_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fastprod.spark.sink.api import StreamProgress

DEFAULT_LINES: Final = 100_000
_READ_TIMEOUT_S: Final = 30.0
# A shuffle into 200 partitions, Spark's default, takes seconds.
_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2"}


def check_installed() -> None:
    """Refuse the demo where it cannot run.

    Raises:
        click.UsageError: what is missing, and how to get it.
    """
    need("pyspark", "pyarrow")
    installed_reader()


def run_spark_demo(client: ClientSettings, line_count: int, partition_count: int) -> None:
    """Run `fastprod.spark.example`, read both topics back, compare, and report.

    Args:
        client: names the servers.
        line_count: lines of the log.
        partition_count: of each topic.

    Raises:
        RecordsFailed: Spark failed, or a topic has other records than expected.
        Unreachable: the topics cannot be created.
        Interrupted: Ctrl-C.
    """
    from fastprod.cli.demo.web_log import WebLog  # noqa: PLC0415

    reader = installed_reader()
    random = uuid.uuid4().hex[:12]
    topics = (f"fastprod-demo-requests-{random}", f"fastprod-demo-per-minute-{random}")
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="fastprod-demo-", ignore_cleanup_errors=True)
            )
        )
        log = WebLog(line_count)
        log.write(folder / "logs")
        for topic in topics:
            stack.enter_context(own_topic(client, topic, partition_count))
        report = Report()
        report.line("log", f"{line_count:,} lines of a web server")
        for topic, wrote in zip(topics, _streamed(client.servers, folder, topics), strict=True):
            report.line(_name(topic), f"{wrote.rows:,} records, {wrote.took}")
        began_s = time.monotonic()
        requests, figures = (
            list(_read(reader, client.servers, topic, partition_count)) for topic in topics
        )
        took_s = time.monotonic() - began_s
        differences = {
            "requests": log.event_differences(requests),
            "figures a minute": log.figure_differences(figures),
        }
    told = "; ".join(f"{name}: {text}" for name, text in differences.items() if text)
    report.line("read back", f"{len(requests) + len(figures):,} by {reader.name} in {took_s:.1f} s")
    report.line("compared", told or "both topics are what plain Python makes of the log")
    report.print()
    if told:
        raise RecordsFailed(f"read back: {told}")


@dataclass(frozen=True)
class _Wrote:
    """What a stream wrote."""

    rows: int
    took: str


def _streamed(servers: str, folder: Path, topics: tuple[str, str]) -> list[_Wrote]:
    """Run the example's streams to their end."""
    from fastprod.spark import example  # noqa: PLC0415
    from fastprod.spark.sink.api import progress  # noqa: PLC0415

    found: list[_Wrote] = []

    def stream(spark: SparkSession) -> None:
        for query in example.start(spark, folder, servers, topics):
            query.awaitTermination()
            found.append(_wrote(progress(query)))

    click.echo("starting Spark, some 10 s", err=True)
    ending = run_in_spark("fastprod demo", SparkOptions(settings=_SETTINGS), stream)
    if ending.outcome == "interrupted":
        raise Interrupted("interrupted while Spark was writing")
    if ending.outcome == "failed":
        raise RecordsFailed(ending.failure)
    return found


def _wrote(told: StreamProgress) -> _Wrote:
    total = told.total
    took = f"{total.batches} micro-batches, {total.seconds:.1f} s from row to acknowledgement"
    return _Wrote(total.rows, took)


def _name(topic: str) -> str:
    return "requests" if "requests" in topic else "figures a minute"


def _read(
    reader: ForeignReader, servers: str, topic: str, partition_count: int
) -> Iterator[tuple[bytes | None, bytes | None]]:
    try:
        for chunk in reader.read(servers, topic, partition_count, _READ_TIMEOUT_S):
            for _, key, value in chunk:
                yield key, value
    except TimeoutError as error:
        raise RecordsFailed(f"{topic}: {error}") from error
