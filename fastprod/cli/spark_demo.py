"""SparkDemo: a web server's log through two of Spark's streams into two topics, and compared."""

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

from fastprod.cli.failure import Interrupted, RecordsFailed
from fastprod.cli.load_options import need
from fastprod.cli.own_topic import own_topic
from fastprod.cli.read_back import ForeignReader, installed_reader
from fastprod.cli.report import Report
from fastprod.cli.spark_failure import spark_failure
from fastprod.config import ProducerConfig

if TYPE_CHECKING:
    from fastprod.spark.api import StreamProgress

DEFAULT_LINES: Final = 100_000
_READ_TIMEOUT_S: Final = 30.0
# One a core would do; a shuffle into 200, Spark's default, takes seconds.
_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True)
class SparkDemoPlan:
    """What the options say.

    Attributes:
        config: names the servers.
        line_count: lines of the log.
        partition_count: of each topic.
        timeout_s: bound of each step towards the cluster.
    """

    config: ProducerConfig
    line_count: int
    partition_count: int
    timeout_s: float


def check_installed() -> None:
    """Refuse the demo where it cannot run.

    Raises:
        click.UsageError: what is missing, and how to get it.
    """
    need("pyspark", "pyarrow")
    installed_reader()


def run_spark_demo(plan: SparkDemoPlan) -> None:
    """Run `fastprod.spark.example`, read both topics back, compare, and report.

    Raises:
        RecordsFailed: Spark failed, or a topic has not what it ought to.
        Unreachable: the topics cannot be created.
        Interrupted: Ctrl-C.
    """
    from fastprod.spark.web_log import WebLog  # noqa: PLC0415

    reader = installed_reader()
    random = uuid.uuid4().hex[:12]
    topics = (f"fastprod-demo-requests-{random}", f"fastprod-demo-per-minute-{random}")
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="fastprod-demo-", ignore_cleanup_errors=True)
            )
        )
        log = WebLog(plan.line_count)
        log.write(folder / "logs")
        for topic in topics:
            stack.enter_context(own_topic(plan.config, topic, plan.partition_count, plan.timeout_s))
        report = Report()
        report.line("log", f"{plan.line_count:,} lines of a web server")
        for topic, wrote in zip(topics, _streamed(plan, folder, topics), strict=True):
            report.line(_name(topic), f"{wrote.rows:,} records, {wrote.took}")
        began_s = time.monotonic()
        requests, figures = (list(_read(plan, reader, topic)) for topic in topics)
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


def _streamed(plan: SparkDemoPlan, folder: Path, topics: tuple[str, str]) -> list[_Wrote]:
    """Run the example's streams to their end."""
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from fastprod.spark import example  # noqa: PLC0415
    from fastprod.spark.api import progress  # noqa: PLC0415
    from fastprod.spark.session import SessionFailed, job_session, log_file  # noqa: PLC0415

    servers = ",".join(str(server) for server in plan.config.bootstrap_servers)
    click.echo("starting Spark, some 10 s", err=True)
    with log_file() as log:
        try:
            with job_session("fastprod demo", settings=_SETTINGS, log_path=Path(log.name)) as spark:
                found = []
                for query in example.start(spark, folder, servers, topics):
                    query.awaitTermination()
                    found.append(_wrote(progress(query)))
                return found
        except SessionFailed as error:
            raise click.UsageError(str(error)) from error
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise spark_failure(error) from error
        except KeyboardInterrupt:
            raise Interrupted("interrupted while Spark was writing") from None


def _wrote(told: StreamProgress) -> _Wrote:
    total = told.total
    took = f"{total.batches} micro-batches, {total.seconds:.1f} s from row to acknowledgement"
    return _Wrote(total.rows, took)


def _name(topic: str) -> str:
    return "requests" if "requests" in topic else "figures a minute"


def _read(
    plan: SparkDemoPlan, reader: ForeignReader, topic: str
) -> Iterator[tuple[bytes | None, bytes | None]]:
    servers = ",".join(str(server) for server in plan.config.bootstrap_servers)
    try:
        for chunk in reader.read(servers, topic, plan.partition_count, _READ_TIMEOUT_S):
            for _, key, value in chunk:
                yield key, value
    except TimeoutError as error:
        raise RecordsFailed(f"{topic}: {error}") from error
