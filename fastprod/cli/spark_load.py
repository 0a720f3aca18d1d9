"""`fastprod spark-load`: files of any size into a topic, by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from fastprod.spark.load_job import LoadState
    from fastprod.spark.load_request import LoadPlan


@click.command("spark-load", epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--topic", required=True, help="Topic to load into.")
@bootstrap_option(required=False, default=DEFAULT_BOOTSTRAP)
@file_options(FORMATS)
@click.option(
    "--schema", metavar="DDL", help="Columns of the files, such as 'id bigint, t string'."
)
@column_options
@query_options
@click.option(
    "--engine",
    type=click.Choice(("auto", "spark", "direct")),
    default="auto",
    show_default=True,
    help="spark: Spark's readers; direct: workers read Parquet, CSV, JSON lines and text "
    "themselves, faster, without SQL; auto: direct if it can.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Cut the work into about N tasks. [default: by size]",
)
@rate_option
@compression_option
@click.option(
    "--guarantee",
    type=click.Choice(("at_least_once",)),
    default="at_least_once",
    show_default=True,
    help="A task that is repeated sends its rows again.",
)
@click.option(
    "--job-id",
    metavar="NAME",
    help="Keep a manifest under this name: run again, the job sends what is not sent yet, and "
    "files that are new.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where manifests are. [default: ~/.local/state/fastprod/jobs]",
)
@session_options
@producer_options
@timeout_option
@progress_option
@summary_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print the count at the end.")
@spark_verbose_option
def spark_load(
    paths: tuple[str, ...],
    topic: str,
    bootstrap_servers: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    compression: str | None,
    timeout_s: float,
    **given: Any,
) -> None:
    r"""Load files into a topic: Parquet, CSV, JSON lines, ORC, Avro or text.

    PATH is a file, a folder, a pattern, or a URL that Spark knows. The columns key and value are
    taken if nothing is said. Spark takes some 8 s to start: for small files there is
    `fastprod load`.

    Each row arrives at least once. Ctrl-C ends the tasks; with --job-id what is done stays done.
    """
    need("pyspark", "pyarrow")
    from fastprod.spark.input_files import InputError  # noqa: PLC0415

    settings = given_settings(
        bootstrap_servers,
        config_file,
        properties,
        "fastprod-spark-load",
        compression_type=compression,
    )
    config = checked_settings(settings)
    check_sink_settings(settings)
    try:
        plan = _plan(paths, topic, settings, given)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    connected_producer(config, topic, timeout_s).close(0)
    _run(plan, given)


def _plan(
    paths: tuple[str, ...], topic: str, settings: dict[str, str], given: dict[str, Any]
) -> LoadPlan:
    from fastprod.spark.load_request import LoadRequest, load_plan  # noqa: PLC0415
    from fastprod.spark.manifest import state_folder  # noqa: PLC0415

    request = LoadRequest(
        paths=paths,
        topic=topic,
        kafka=settings,
        kind=given["kind"],
        mapping=column_mapping(given),
        reader_options=reader_pairs(given["reader_options"]),
        **query(given),
        schema=given["schema"],
        engine=given["engine"],
        partitions=given["partitions"],
        max_bytes_per_second=round(given["max_mb_per_second"] * 1e6),
        job_id=given["job_id"],
        state=given["state_dir"] or state_folder(),
    )
    return load_plan(request)


def _run(plan: LoadPlan, given: dict[str, Any]) -> None:
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from fastprod.errors import ConfigError  # noqa: PLC0415
    from fastprod.spark.input_files import InputError  # noqa: PLC0415
    from fastprod.spark.load_job import LoadJob, LoadState  # noqa: PLC0415
    from fastprod.spark.session import SessionFailed, job_session, log_file  # noqa: PLC0415

    state = LoadState()
    outcome, failure = "complete", ""
    with log_file() as log:
        try:
            with job_session(
                f"fastprod spark-load {plan.request.topic}",
                master=given["master"],
                settings=session_settings(given),
                log_path=None if given["verbose"] else Path(log.name),
            ) as spark:
                job = LoadJob(spark, plan)
                state = job.state
                with ByteProgress(given["progress_kind"]) as progress:
                    job.run(lambda state: _show(progress, state))
        except (InputError, ConfigError, SessionFailed) as error:
            if not state.summaries:
                raise click.UsageError(str(error)) from error
            # A later group of files, or the manifest: what went before is in Kafka.
            outcome, failure = "failed", str(error)
        except KeyboardInterrupt:
            outcome = "interrupted"
        except (PySparkException, Py4JError, ConnectionError) as error:
            told = spark_failure(error)
            if isinstance(told, click.UsageError) and not state.summaries:
                raise told from error
            outcome, failure = "failed", told.message
    _conclude(plan, state, outcome, failure, given)


def _show(progress: ByteProgress, state: LoadState) -> None:
    result = state.result
    progress.show(
        done_bytes=state.done_bytes,
        total_bytes=state.total_bytes,
        rows=result.rows,
        sent_bytes=result.bytes,
        tasks=(state.done_tasks, state.total_tasks),
        retries=result.retries,
    )


def _conclude(
    plan: LoadPlan, state: LoadState, outcome: str, failure: str, given: dict[str, Any]
) -> None:
    result, request = state.result, plan.request
    summary = {
        "outcome": outcome,
        "topic": request.topic,
        "engine": plan.engine,
        "format": plan.kind,
        **result.as_json(),
        "input_bytes": state.done_bytes,
        "input_bytes_total": state.total_bytes,
        "job_id": request.job_id,
        "rows_of_earlier_runs": sum(each["rows"] for each in state.earlier),
        "error": failure or None,
    }
    write_summary(given["summary"], summary)
    known = f"{result.rows:,} rows known to be delivered"
    again = ""
    if request.job_id is not None:
        again = f"; run it again with --job-id {request.job_id} for the rest"
    if outcome == "interrupted":
        raise Interrupted(f"interrupted: {known}{again}")
    if outcome == "failed":
        raise RecordsFailed(f"{known}, then: {failure}{again}")
    if not given["quiet"] and given["summary"] != "-":
        earlier = summary["rows_of_earlier_runs"]
        before = f", {earlier:,} by earlier runs" if earlier else ""
        click.echo(
            f"{result.rows:,} rows, {result.bytes / 1e6:,.1f} MB, delivered to {request.topic} in "
            f"{result.seconds:.2f} s (engine {plan.engine}){before}"
        )
