"""`fastprod load`: files of this machine into a topic, without Spark."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fastprod.cli.byte_progress import ByteProgress
from fastprod.cli.connected_producer import connected_producer
from fastprod.cli.failure import EXIT_CODES, Interrupted, RecordsFailed
from fastprod.cli.load_options import (
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
    compression_option,
    producer_options,
    producer_settings,
    timeout_option,
    verbose_option,
)
from fastprod.errors import KafkaError, UndeliveredError

if TYPE_CHECKING:
    from fastprod.producer import KafkaProducer
    from fastprod.spark.file_loader import FileLoader
    from fastprod.spark.load_request import LoadPlan

_LAST_CALL_S: Final = 5.0


@click.command(epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--topic", required=True, help="Topic to load into.")
@bootstrap_option(required=False, default=DEFAULT_BOOTSTRAP)
@file_options(("parquet", "csv", "json", "text"))
@column_options
@rate_option
@compression_option
@producer_options
@timeout_option
@progress_option
@summary_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print the count at the end.")
@verbose_option
def load(
    paths: tuple[str, ...],
    topic: str,
    bootstrap_servers: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    compression: str | None,
    timeout_s: float,
    **given: Any,
) -> None:
    """Load files of this machine into a topic: Parquet, CSV, JSON lines or text.

    PATH is a file, a folder or a pattern. The columns key and value are taken if nothing is said.
    It needs pyarrow and starts at once; for much data, SQL and other formats there is
    `fastprod spark-load`.
    """
    need("pyarrow")
    from fastprod.spark.file_loader import FileLoader  # noqa: PLC0415
    from fastprod.spark.input_files import InputError, NeedsSpark  # noqa: PLC0415

    config = producer_settings(
        bootstrap_servers, config_file, properties, "fastprod-load", compression_type=compression
    )
    try:
        plan = _plan(paths, topic, given)
    except NeedsSpark as error:
        raise click.UsageError(f"{error}; fastprod spark-load reads it") from error
    except InputError as error:
        raise click.UsageError(str(error)) from error
    producer = connected_producer(config, topic, timeout_s)
    assert plan.reader is not None
    loader = FileLoader(producer, topic, plan.reader, plan.request.max_bytes_per_second)
    began_s = time.monotonic()
    outcome, failure = _send_all(producer, loader, plan, given["progress_kind"])
    _conclude(loader, plan, outcome, failure, time.monotonic() - began_s, given)


def _plan(paths: tuple[str, ...], topic: str, given: dict[str, Any]) -> LoadPlan:
    from fastprod.spark.input_files import find_files, format_of  # noqa: PLC0415
    from fastprod.spark.load_request import (  # noqa: PLC0415
        LoadPlan,
        LoadRequest,
        direct_reader,
    )

    request = LoadRequest(
        paths=paths,
        topic=topic,
        kafka={},
        mapping=column_mapping(given),
        reader_options=reader_pairs(given["reader_options"]),
        max_bytes_per_second=round(given["max_mb_per_second"] * 1e6),
    )
    files = find_files(paths)
    kind = given["kind"] or format_of([file.path for file in files])
    return LoadPlan(request, kind, files, direct_reader(request, kind, files))


def _send_all(
    producer: KafkaProducer, loader: FileLoader, plan: LoadPlan, progress_kind: str
) -> tuple[str, str]:
    """Send, and close the producer; the outcome, and what went wrong."""
    from fastprod.spark.file_splits import split_file  # noqa: PLC0415
    from fastprod.spark.input_files import InputError  # noqa: PLC0415

    outcome, failure = "complete", ""
    total_bytes = sum(file.size_bytes for file in plan.files)
    splits = (
        split
        for file in plan.files
        for split in split_file(file, plan.kind, by_lines=plan.by_lines)
    )
    try:
        with ByteProgress(progress_kind) as progress:

            def watch() -> None:
                progress.show(
                    done_bytes=loader.done_bytes,
                    total_bytes=total_bytes,
                    rows=loader.delivered_count,
                    sent_bytes=loader.delivered_bytes,
                )

            loader.load(splits, watch)
            loader.finish()
    except KeyboardInterrupt:
        outcome = "interrupted"
    except (KafkaError, InputError) as error:
        outcome, failure = "failed", str(error)
    with contextlib.suppress(UndeliveredError, KeyboardInterrupt):
        # What was sent before the end came is given a last chance; its outcome is counted.
        producer.close(_LAST_CALL_S)
    loader.finish()
    if loader.failed_count and outcome == "complete":
        outcome, failure = "failed", loader.first_error or ""
    return outcome, failure


def _conclude(
    loader: FileLoader,
    plan: LoadPlan,
    outcome: str,
    failure: str,
    elapsed_s: float,
    given: dict[str, Any],
) -> None:
    topic = plan.request.topic
    summary = {
        "outcome": outcome,
        "topic": topic,
        "format": plan.kind,
        "rows": loader.delivered_count,
        "bytes": loader.delivered_bytes,
        "failed": loader.failed_count,
        "seconds": round(elapsed_s, 3),
        "error": failure or None,
    }
    write_summary(given["summary"], summary)
    known = f"{loader.delivered_count:,} rows delivered, {loader.failed_count:,} failed"
    if outcome == "interrupted":
        raise Interrupted(f"interrupted: {known}")
    if outcome == "failed":
        raise RecordsFailed(f"{known}; the first error: {failure}")
    if not given["quiet"] and given["summary"] != "-":
        click.echo(f"{loader.delivered_count:,} rows delivered to {topic} in {elapsed_s:.2f} s")
