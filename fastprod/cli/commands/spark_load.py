"""`fastprod spark-load`: files of any size into a topic, by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.cluster.spark_run import run_in_spark
from fastprod.cli.options.loading import LoadingOptions, loading_options
from fastprod.cli.options.spark import FORMATS, SparkOptions, sink_settings, spark_options
from fastprod.cli.output.byte_progress import ByteProgress
from fastprod.cli.output.failure import EXIT_CODES
from fastprod.cli.output.load_ending import LoadEnding, conclude

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fastprod.load.load_request import LoadPlan
    from fastprod.spark.jobs.load_job import LoadState


@click.command("spark-load", epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@loading_options("fastprod-spark-load", FORMATS, "pyspark", "pyarrow")
@spark_options
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
def spark_load(
    paths: tuple[str, ...], loading: LoadingOptions, spark: SparkOptions, **given: Any
) -> None:
    r"""Load files into a topic: Parquet, CSV, JSON lines, ORC, Avro or text.

    PATH is a file, a folder, a pattern, or a URL that Spark knows. By default the columns
    key and value are sent. Spark takes some 8 s to start: for small files there is
    `fastprod load`.

    Each row arrives at least once. Ctrl-C ends the tasks; with --job-id what is done stays done.
    """
    from fastprod.load.input_files import InputError  # noqa: PLC0415

    try:
        plan = _plan(paths, loading, spark, given)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    connected_producer(loading.client, loading.topic).close(0)
    _run(plan, loading, spark)


def _plan(
    paths: tuple[str, ...],
    loading: LoadingOptions,
    spark: SparkOptions,
    given: Mapping[str, Any],
) -> LoadPlan:
    from fastprod.load.load_request import LoadRequest, load_plan  # noqa: PLC0415
    from fastprod.spark.jobs.manifest import state_folder  # noqa: PLC0415

    request = LoadRequest(
        paths=paths,
        topic=loading.topic,
        kafka=sink_settings(loading.client),
        kind=loading.kind,
        mapping=loading.mapping,
        reader_options=loading.reader_options,
        **spark.query,
        schema=spark.schema,
        engine=given["engine"],
        partitions=given["partitions"],
        max_bytes_per_second=loading.max_bytes_per_second,
        job_id=given["job_id"],
        state=given["state_dir"] or state_folder(),
    )
    return load_plan(request)


def _run(plan: LoadPlan, loading: LoadingOptions, options: SparkOptions) -> None:
    from fastprod.spark.jobs.load_job import LoadJob, LoadState  # noqa: PLC0415

    state = LoadState()

    def work(spark: SparkSession) -> None:
        nonlocal state
        job = LoadJob(spark, plan)
        state = job.state
        with ByteProgress(loading.progress_kind) as progress:
            job.run(lambda state: _show(progress, state))

    # A later group of files, or the manifest, may be refused: what went before is in Kafka.
    ending = run_in_spark(
        f"fastprod spark-load {loading.topic}", options, work, lambda: bool(state.summaries)
    )
    _conclude(plan, state, loading, ending)


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
    plan: LoadPlan, state: LoadState, loading: LoadingOptions, ending: LoadEnding
) -> None:
    result, job_id = state.result, plan.request.job_id
    earlier = sum(each["rows"] for each in state.earlier)
    counts = {
        "engine": plan.engine,
        "format": plan.kind,
        **result.as_json(),
        "input_bytes": state.done_bytes,
        "input_bytes_total": state.total_bytes,
        "job_id": job_id,
        "rows_of_earlier_runs": earlier,
    }
    before = f", {earlier:,} by earlier runs" if earlier else ""
    conclude(
        loading,
        ending,
        counts,
        known=f"{result.rows:,} rows known to be delivered",
        delivered=f"{result.rows:,} rows, {result.bytes / 1e6:,.1f} MB, delivered to "
        f"{loading.topic} in {result.seconds:.2f} s (engine {plan.engine}){before}",
        advice="" if job_id is None else f"; run it again with --job-id {job_id} for the rest",
    )
