"""`fastprod perf`: how many records a second this machine can deliver to a topic, and how soon."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Final

import click

from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.options.client_settings import PRODUCER_OPTIONS, ClientSettings, client_options
from fastprod.cli.options.common import verbose_option
from fastprod.cli.options.finite_range import FiniteRange
from fastprod.cli.options.separator import separator
from fastprod.cli.output.failure import EXIT_CODES, Interrupted, RecordsFailed
from fastprod.cli.output.record_progress import RecordProgress
from fastprod.cli.output.report import Report
from fastprod.cli.records.payloads import (
    LARGEST_VALUE_BYTES,
    MonotonicPayloads,
    Payloads,
    file_payloads,
    random_payloads,
)
from fastprod.cli.records.workload import (
    SAMPLE_COUNT,
    Workload,
    WorkloadResult,
    peak_memory_in_words,
)
from fastprod.errors import UndeliveredError
from fastprod.producer import KafkaProducer

_LISTS: Final = ("--producer-props", "--command-property")


class ListedPropertiesCommand(click.Command):
    """Takes `--producer-props a=1 b=2`, several values after one option, as Kafka's tool does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of its values, then parse as usual."""
        return super().parse_args(ctx, _spread(args))


def _spread(args: list[str]) -> list[str]:
    spread: list[str] = []
    option, has_value = "", False
    for arg in args:
        if arg.startswith("-"):
            name, equals, _ = arg.partition("=")
            option, has_value = (name if name in _LISTS else ""), bool(equals)
        elif option and has_value:
            spread.append(option)
        else:
            has_value = True
        spread.append(arg)
    return spread


@click.command(cls=ListedPropertiesCommand, epilog=EXIT_CODES)
@click.option("--topic", required=True, help="Topic to send to.")
@click.option(
    "--num-records", type=click.IntRange(min=1), required=True, help="How many records to send."
)
@click.option(
    "--record-size",
    type=click.IntRange(1, LARGEST_VALUE_BYTES),
    metavar="BYTES",
    help="Values of this size, of random letters: up to 10,000 different ones, in turn.",
)
@click.option(
    "--payload-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the values from this file, in its order, again and again.",
)
@click.option(
    "--payload-delimiter",
    type=separator,
    default=r"\n",
    show_default=True,
    metavar="TEXT",
    help="What stands between two values of --payload-file.",
)
@click.option(
    "--payload-monotonic", is_flag=True, help="The values are the numbers 0, 1, 2, ... as text."
)
@click.option(
    "--throughput",
    type=FiniteRange(),
    default=-1,
    show_default=True,
    metavar="RECORDS/S",
    help="Send at most so many records a second; -1: as many as possible.",
)
@client_options("fastprod-perf", *PRODUCER_OPTIONS)
@click.option(
    "--warmup-records",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Send so many more before the measurement starts.",
)
@click.option(
    "--sample-every",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Take the latency of every N-th record. [default: so that there are {SAMPLE_COUNT:,}]",
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(min=0),
    default=5000,
    show_default=True,
    metavar="MS",
    help="How often to write a line where stderr is no terminal; 0: never.",
)
@click.option("--print-metrics", is_flag=True, help="Print the producer's metrics at the end.")
@verbose_option
def perf(
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: Path | None,
    payload_delimiter: bytes,
    payload_monotonic: bool,
    throughput: float,
    client: ClientSettings,
    warmup_records: int,
    sample_every: int | None,
    reporting_interval: int,
    print_metrics: bool,
) -> None:
    """Send records as fast as possible, or at a rate, and measure.

    What counts are records that a broker has acknowledged. The clock runs from the first send() to
    the last acknowledgement; connecting comes before. MB are 1,000,000 bytes of values.

    Latency is the time from the call of send() to its delivery callback. It is taken of a sample,
    every N-th record, because a callback costs several times what the rest of a record does; the
    maximum is that of the sample. Without --throughput it is mostly the time that a record waits
    behind those in the buffer.

    CPU is the user and system time of all threads of this process.
    """
    if throughput == 0 or throughput < -1:
        raise click.UsageError("--throughput: must be -1 or more than 0")
    payloads = _payloads(
        num_records + warmup_records,
        record_size,
        payload_file,
        payload_delimiter,
        payload_monotonic,
    )
    every = sample_every or max(1, num_records // SAMPLE_COUNT)
    producer = connected_producer(client, topic)
    try:
        values = zip(itertools.repeat(None), payloads, strict=False)
        workload = Workload(producer, topic, values, every, throughput)
        period_s = reporting_interval / 1000
        if warmup_records:
            with RecordProgress("delivered, to warm up", warmup_records, period_s) as progress:
                result = workload.run(warmup_records, progress)
            if result.interrupted or result.failed_count:
                _conclude(result, num_records)
        with RecordProgress("delivered", num_records, period_s) as progress:
            result = workload.run(num_records, progress)
        first, last = warmup_records, warmup_records + result.sent_count
        sent_bytes = payloads.bytes_of(last) - payloads.bytes_of(first)
        _report(result, every, sent_bytes, producer, print_metrics)
    finally:
        with contextlib.suppress(UndeliveredError):
            producer.close(0)
    _conclude(result, num_records)


def _payloads(
    count: int,
    record_size: int | None,
    payload_file: Path | None,
    delimiter: bytes,
    is_monotonic: bool,
) -> Payloads:
    given = [record_size is not None, payload_file is not None, is_monotonic]
    if sum(given) != 1:
        raise click.UsageError(
            "exactly one of --record-size, --payload-file and --payload-monotonic is needed"
        )
    if record_size is not None:
        return random_payloads(record_size, count)
    if payload_file is not None:
        return file_payloads(payload_file, delimiter)
    return MonotonicPayloads()


def _report(
    result: WorkloadResult,
    every: int,
    sent_bytes: int,
    producer: KafkaProducer,
    print_metrics: bool,
) -> None:
    report = Report()
    report.line("delivered", f"{result.delivered_count:,} records in {result.elapsed_s:,.3f} s")
    if result.failed_count:
        report.line("failed", f"{result.failed_count:,} records")
    report.line("throughput", result.throughput_in_words(sent_bytes))
    sample = f"of {len(result.latencies):,} records, one in {every:,}"
    told = (result.latencies.in_words(), sample, result.latencies.histogram())
    report.line("latency", "\n".join(told))
    report.line("CPU", result.cpu_in_words())
    report.line("peak memory", peak_memory_in_words())
    if print_metrics:
        report.heading("metrics")
        for name, value in sorted(producer.metrics()["producer-metrics"].items()):
            report.line(name, f"{value:,.3f}".rstrip("0").rstrip("."))
    report.print()


def _conclude(result: WorkloadResult, wanted_count: int) -> None:
    if result.interrupted:
        raise Interrupted(
            f"interrupted: {result.delivered_count:,} of {result.sent_count:,} records sent were "
            f"delivered"
        )
    if result.failed_count or result.error is not None or result.sent_count < wanted_count:
        why = result.error or "not known, as no sampled record failed: try --sample-every 1"
        raise RecordsFailed(f"{result.failed_count:,} records failed; the first error: {why}")
