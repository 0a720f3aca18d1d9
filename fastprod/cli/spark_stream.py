"""`fastprod spark-stream`: a folder, a rate or a topic into a topic, by Spark, until its end."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fastprod.cli.byte_progress import ByteProgress
from fastprod.cli.connected_producer import connected_producer
from fastprod.cli.failure import EXIT_CODES, Interrupted, RecordsFailed
from fastprod.cli.load_options import (
    FORMATS,
    column_mapping,
    column_options,
    file_options,
    need,
    progress_option,
    rate_option,
    reader_pairs,
    summary_option,
    write_summary,
)
from fastprod.cli.options import (
    DEFAULT_BOOTSTRAP,
    bootstrap_option,
    checked_settings,
    compression_option,
    given_settings,
    producer_options,
    spark_verbose_option,
    timeout_option,
)
from fastprod.cli.spark_failure import spark_failure
from fastprod.cli.spark_options import (
    check_sink_settings,
    query,
    query_options,
    session_options,
    session_settings,
)

if TYPE_CHECKING:
    from fastprod.spark.stream_job import StreamJob, StreamRequest

_INTERVAL: Final = re.compile(r"\d+(\.\d+)? *(ms|s|seconds?|minutes?|hours?)")


def _trigger(text: str) -> dict[str, Any]:
    """The trigger that the text stands for, as Spark's own names have it."""
    if text == "available-now":
        return {"availableNow": True}
    if text == "once-after-another":
        return {}
    if not _INTERVAL.fullmatch(text):
        raise click.BadParameter(
            f"{text!r}: must be an interval such as '5 seconds', or available-now"
        )
    return {"processingTime": re.sub(r" *ms$", " milliseconds", re.sub(r" *s$", " seconds", text))}


@click.command("spark-stream", epilog=EXIT_CODES)
@click.argument("source", metavar="SOURCE")
@click.option("--topic", required=True, help="Topic to write to.")
@bootstrap_option(required=False, default=DEFAULT_BOOTSTRAP)
@file_options(FORMATS)
@click.option("--schema", metavar="DDL", help="Columns of the files; a folder of text needs none.")
@column_options
@query_options
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
    help="Where Spark keeps how far it is, to go on from there. [default: a new one, thrown away]",
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
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End after so long. [default: at Ctrl-C]",
)
@click.option(
    "--source-bootstrap-servers",
    metavar="HOST:PORT,...",
    help="Brokers of the topic that is read. [default: those of --bootstrap-servers]",
)
@rate_option
@compression_option
@click.option(
    "--guarantee",
    type=click.Choice(("at_least_once",)),
    default="at_least_once",
    show_default=True,
    help="A micro-batch that is repeated sends its rows again.",
)
@session_options
@producer_options
@timeout_option
@progress_option
@summary_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print the count at the end.")
@spark_verbose_option
def spark_stream(
    source: str,
    topic: str,
    bootstrap_servers: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    compression: str | None,
    timeout_s: float,
    **given: Any,
) -> None:
    """Write a stream into a topic, micro-batch by micro-batch, through SQL if wanted.

    SOURCE is a folder whose new files are read; rate or rate:ROWS for ROWS rows a second, with the
    columns timestamp and value (a number); or kafka:TOPIC, which needs Spark's own Kafka source:
    --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, or --jars.

    Ctrl-C ends it; with --checkpoint it goes on from there the next time.
    """
    need("pyspark", "pyarrow")
    from fastprod.spark.input_files import InputError  # noqa: PLC0415

    settings = given_settings(
        bootstrap_servers,
        config_file,
        properties,
        "fastprod-spark-stream",
        compression_type=compression,
    )
    config = checked_settings(settings)
    check_sink_settings(settings)
    try:
        request = _request(source, topic, settings, given)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    connected_producer(config, topic, timeout_s).close(0)
    _run(request, given)


def _request(
    source: str, topic: str, settings: dict[str, str], given: dict[str, Any]
) -> StreamRequest:
    from fastprod.spark.stream_job import StreamRequest, stream_source  # noqa: PLC0415

    servers = given["source_bootstrap_servers"] or settings["bootstrap.servers"]
    return StreamRequest(
        source=stream_source(
            source, given["kind"], reader_pairs(given["reader_options"]), given["schema"], servers
        ),
        topic=topic,
        kafka=settings,
        mapping=column_mapping(given),
        **query(given),
        output_mode=given["output_mode"],
        trigger=given["trigger"],
        max_bytes_per_second=round(given["max_mb_per_second"] * 1e6),
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


def _run(request: StreamRequest, given: dict[str, Any]) -> None:
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from fastprod.errors import ConfigError  # noqa: PLC0415
    from fastprod.spark.input_files import InputError  # noqa: PLC0415
    from fastprod.spark.session import SessionFailed, job_session, log_file  # noqa: PLC0415
    from fastprod.spark.stream_job import StreamJob  # noqa: PLC0415

    job: StreamJob | None = None
    outcome, failure = "complete", ""
    with log_file() as log, _checkpoint(given["checkpoint"]) as checkpoint:
        try:
            with job_session(
                f"fastprod spark-stream {request.topic}",
                master=given["master"],
                settings=session_settings(given),
                log_path=None if given["verbose"] else Path(log.name),
            ) as spark:
                job = StreamJob(spark, request, checkpoint)
                with ByteProgress(given["progress_kind"]) as progress:
                    job.run(lambda: _show(progress, job), given["run_for_s"])
        except (InputError, ConfigError, SessionFailed) as error:
            raise click.UsageError(str(error)) from error
        except KeyboardInterrupt:
            outcome = "interrupted"
        except (PySparkException, Py4JError, ConnectionError) as error:
            told = spark_failure(error)
            if isinstance(told, click.UsageError):
                raise told from error
            outcome, failure = "failed", told.message
    _conclude(request, job, outcome, failure, given)


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


def _conclude(
    request: StreamRequest,
    job: StreamJob | None,
    outcome: str,
    failure: str,
    given: dict[str, Any],
) -> None:
    from fastprod.spark.write_result import WriteResult  # noqa: PLC0415

    total = WriteResult() if job is None else job.total
    summary = {
        "outcome": outcome,
        "topic": request.topic,
        **total.as_json(),
        "batch_id": None if job is None else job.batch_id,
        "error": failure or None,
    }
    write_summary(given["summary"], summary)
    known = f"{total.rows:,} rows in {total.batches:,} micro-batches known to be delivered"
    if outcome == "interrupted":
        raise Interrupted(f"interrupted: {known}")
    if outcome == "failed":
        raise RecordsFailed(f"{known}, then: {failure}")
    if not given["quiet"] and given["summary"] != "-":
        click.echo(f"{total.rows:,} rows in {total.batches:,} micro-batches to {request.topic}")
