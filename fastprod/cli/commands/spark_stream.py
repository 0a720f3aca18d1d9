"""`fastprod spark-stream`: a folder, a rate or a topic into a topic, by Spark, until its end."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.cluster.spark_run import run_in_spark
from fastprod.cli.options.finite_range import FiniteRange
from fastprod.cli.options.loading import LoadingOptions, loading_options
from fastprod.cli.options.spark import FORMATS, SparkOptions, sink_settings, spark_options
from fastprod.cli.output.byte_progress import ByteProgress
from fastprod.cli.output.failure import EXIT_CODES
from fastprod.cli.output.load_ending import LoadEnding, conclude

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fastprod.spark.jobs.stream_job import StreamJob, StreamRequest

_INTERVAL: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *(ms|s|seconds?|minutes?|hours?)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "second": 1_000, "minute": 60_000, "hour": 3_600_000}


def _trigger(text: str) -> dict[str, Any]:
    """Parse --trigger into the keyword of Spark's own `trigger`."""
    if text == "available-now":
        return {"availableNow": True}
    if text == "once-after-another":
        return {}
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r}: must be an interval such as '5 seconds', or available-now"
        )
    number, unit = found.groups()
    each_ms = _UNIT_MS.get(unit) or _UNIT_MS[unit.removesuffix("s")]
    # Spark takes fractions of seconds alone.
    return {"processingTime": f"{round(float(number) * each_ms)} milliseconds"}


@click.command("spark-stream", epilog=EXIT_CODES)
@click.argument("source", metavar="SOURCE")
@loading_options("fastprod-spark-stream", FORMATS, "pyspark", "pyarrow")
@spark_options
@click.option(
    "--output-mode",
    type=click.Choice(("append", "update", "complete")),
    default="append",
    show_default=True,
    help="Of an aggregate: its final rows, those that changed, or all each time.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="Where Spark keeps its progress, to go on from there. [default: a temporary folder]",
)
@click.option(
    "--trigger",
    type=_trigger,
    default="once-after-another",
    metavar="INTERVAL",
    help="How often: an interval such as '5 seconds'; available-now: take what there is, and end. "
    "[default: one micro-batch after the other]",
)
@click.option(
    "--run-for",
    "run_for_s",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End after so long. [default: at Ctrl-C]",
)
@click.option(
    "--source-bootstrap-servers",
    metavar="HOST:PORT,...",
    help="Brokers of the topic that is read. [default: those of --bootstrap-servers]",
)
def spark_stream(source: str, loading: LoadingOptions, spark: SparkOptions, **given: Any) -> None:
    """Write a stream into a topic, micro-batch by micro-batch, through SQL if wanted.

    SOURCE is a folder whose new files are read, by the columns that files have at the start, or
    those of --schema; rate or rate:ROWS for ROWS rows a second, with the
    columns timestamp and value (a number); or kafka:TOPIC, which needs Spark's own Kafka source:
    --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, or --jars.

    Ctrl-C ends it; with --checkpoint it goes on from there the next time.
    """
    from fastprod.load.input_files import InputError  # noqa: PLC0415

    try:
        request = _request(source, loading, spark, given)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    connected_producer(loading.client, loading.topic).close(0)
    _run(request, loading, spark, given)


def _request(
    source: str,
    loading: LoadingOptions,
    spark: SparkOptions,
    given: Mapping[str, Any],
) -> StreamRequest:
    from fastprod.spark.jobs.stream_job import StreamRequest, stream_source  # noqa: PLC0415

    settings = sink_settings(loading.client)
    servers = given["source_bootstrap_servers"] or settings["bootstrap.servers"]
    return StreamRequest(
        source=stream_source(source, loading.kind, loading.reader_options, spark.schema, servers),
        topic=loading.topic,
        kafka=settings,
        mapping=loading.mapping,
        **spark.query,
        output_mode=given["output_mode"],
        trigger=given["trigger"],
        max_bytes_per_second=loading.max_bytes_per_second,
    )


@contextlib.contextmanager
def _checkpoint(folder: str | None) -> Iterator[str]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(
        prefix="fastprod-checkpoint-", ignore_cleanup_errors=True
    ) as temporary:
        yield temporary


def _run(
    request: StreamRequest, loading: LoadingOptions, options: SparkOptions, given: Mapping[str, Any]
) -> None:
    from fastprod.spark.jobs.stream_job import StreamJob  # noqa: PLC0415

    job: StreamJob | None = None
    with _checkpoint(given["checkpoint"]) as checkpoint:

        def work(spark: SparkSession) -> None:
            nonlocal job
            job = StreamJob(spark, request, checkpoint)
            with ByteProgress(loading.progress_kind) as progress:
                job.run(lambda: _show(progress, job), given["run_for_s"])

        # A file may be refused later: what went before is in Kafka.
        ending = run_in_spark(
            f"fastprod spark-stream {loading.topic}",
            options,
            work,
            lambda: job is not None and job.total.rows > 0,
        )
    _conclude(job, loading, ending)


def _show(progress: ByteProgress, job: StreamJob | None) -> None:
    if job is not None:
        total = job.total
        progress.show(
            done_bytes=0,
            total_bytes=0,
            rows=total.rows,
            sent_bytes=total.bytes,
            retries=total.retries,
        )


def _conclude(job: StreamJob | None, loading: LoadingOptions, ending: LoadEnding) -> None:
    from fastprod.spark.sink.write_result import WriteResult  # noqa: PLC0415

    total = WriteResult() if job is None else job.total
    rows = f"{total.rows:,} rows in {total.batches:,} micro-batches"
    conclude(
        loading,
        ending,
        {**total.as_json(), "batch_id": None if job is None else job.batch_id},
        known=f"{rows} known to be delivered",
        delivered=f"{rows} to {loading.topic}",
    )
