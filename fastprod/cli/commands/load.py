"""`fastprod load`: files of this machine into a topic, without Spark."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

import click

from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.options.common import verbose_option
from fastprod.cli.options.loading import LoadingOptions, loading_options
from fastprod.cli.output.byte_progress import ByteProgress
from fastprod.cli.output.failure import EXIT_CODES
from fastprod.cli.output.load_ending import LoadEnding, conclude
from fastprod.errors import KafkaError, UndeliveredError

if TYPE_CHECKING:
    from fastprod.load.file_loader import FileLoader
    from fastprod.load.load_request import LoadPlan
    from fastprod.producer import KafkaProducer

_LAST_CALL_S: Final = 5.0


@click.command(epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@loading_options("fastprod-load", ("parquet", "csv", "json", "text"), "pyarrow")
@verbose_option
def load(paths: tuple[str, ...], loading: LoadingOptions) -> None:
    """Load files of this machine into a topic: Parquet, CSV, JSON lines or text.

    PATH is a file, a folder or a pattern. By default the columns key and value are sent.
    It needs pyarrow and starts at once; for much data, SQL and other formats there is
    `fastprod spark-load`.
    """
    from fastprod.load.file_loader import FileLoader  # noqa: PLC0415
    from fastprod.load.input_files import InputError, NeedsSpark  # noqa: PLC0415

    try:
        plan = _plan(paths, loading)
    except NeedsSpark as error:
        raise click.UsageError(f"{error}; fastprod spark-load reads it") from error
    except InputError as error:
        raise click.UsageError(str(error)) from error
    producer = connected_producer(loading.client, loading.topic)
    assert plan.reader is not None
    loader = FileLoader(producer, loading.topic, plan.reader, plan.request.max_bytes_per_second)
    began_s = time.monotonic()
    ending = _send_all(producer, loader, plan, loading.progress_kind)
    _conclude(loading, ending, loader, plan.kind, time.monotonic() - began_s)


def _plan(paths: tuple[str, ...], loading: LoadingOptions) -> LoadPlan:
    from fastprod.load.input_files import find_files, format_of  # noqa: PLC0415
    from fastprod.load.load_request import (  # noqa: PLC0415
        LoadPlan,
        LoadRequest,
        direct_reader,
    )

    request = LoadRequest(
        paths=paths,
        topic=loading.topic,
        kafka=loading.client.by_name,
        mapping=loading.mapping,
        reader_options=loading.reader_options,
        max_bytes_per_second=loading.max_bytes_per_second,
    )
    files = find_files(paths)
    kind = loading.kind or format_of([file.path for file in files])
    return LoadPlan(request, kind, files, direct_reader(request, kind, files))


def _send_all(
    producer: KafkaProducer, loader: FileLoader, plan: LoadPlan, progress_kind: str
) -> LoadEnding:
    """Send, and close the producer."""
    from fastprod.load.file_splits import split_file  # noqa: PLC0415
    from fastprod.load.input_files import InputError  # noqa: PLC0415

    ending = LoadEnding()
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
        ending = LoadEnding("interrupted")
    except (KafkaError, InputError) as error:
        ending = LoadEnding("failed", str(error))
    with contextlib.suppress(UndeliveredError, KeyboardInterrupt):
        # What was sent has some seconds more to be delivered, and is counted.
        producer.close(_LAST_CALL_S)
    loader.finish()
    if loader.failed_count and ending.outcome == "complete":
        ending = LoadEnding("failed", loader.first_error or "")
    return ending


def _conclude(
    loading: LoadingOptions, ending: LoadEnding, loader: FileLoader, kind: str, elapsed_s: float
) -> None:
    counts = {
        "format": kind,
        "rows": loader.delivered_count,
        "bytes": loader.delivered_bytes,
        "failed": loader.failed_count,
        "seconds": round(elapsed_s, 3),
    }
    rows = f"{loader.delivered_count:,} rows delivered"
    conclude(
        loading,
        ending,
        counts,
        known=f"{rows}, {loader.failed_count:,} failed",
        delivered=f"{rows} to {loading.topic} in {elapsed_s:.2f} s",
        before_failure="; the first error: ",
    )
