"""`fastprod demo`: a million records sent, every one read back and compared."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click
from click.core import ParameterSource

from fastprod._core.bytes import crc32c
from fastprod._core.codec import compressor
from fastprod.cli.cluster.broker_process import broker_process
from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.cluster.own_topic import own_topic
from fastprod.cli.demo.spark_demo import (
    DEFAULT_LINES,
    check_installed,
    run_spark_demo,
)
from fastprod.cli.options.client_settings import (
    ClientSettings,
    bootstrap_option,
    client_options,
    compression_option,
    topic_timeout_option,
)
from fastprod.cli.options.common import verbose_option
from fastprod.cli.output.failure import EXIT_CODES, Interrupted, RecordsFailed
from fastprod.cli.output.latency import LatencySamples
from fastprod.cli.output.record_progress import RecordProgress
from fastprod.cli.output.report import Report
from fastprod.cli.records.ledger import Ledger
from fastprod.cli.records.read_back import ForeignReader, installed_reader
from fastprod.cli.records.workload import (
    SAMPLE_COUNT,
    Workload,
    WorkloadResult,
    peak_memory_in_words,
)
from fastprod.errors import UndeliveredError
from fastprod.producer import KafkaProducer

_DEFAULT_RECORDS: Final = 1_000_000
_KEY_COUNT: Final = 1000
_ONE_BY_ONE_COUNT: Final = 1000
_LARGEST_VALUE_BYTES: Final = 1_000_000
_READ_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class DemoPlan:
    """What the options say.

    Attributes:
        client: settings of the producer.
        topic: topic that is made for the demo, and deleted.
        partition_count: its partitions.
        reader: who reads back.
    """

    client: ClientSettings
    topic: str
    partition_count: int
    reader: ForeignReader


@dataclass
class DemoOutcome:
    """What was measured: the many records, then those sent one by one."""

    many: WorkloadResult
    one_by_one: LatencySamples
    peak_memory: str
    read_s: float = 0.0


@click.command(epilog=EXIT_CODES)
@client_options("fastprod-demo", bootstrap_option(), compression_option, topic_timeout_option)
@click.option(
    "--records",
    "record_count",
    type=click.IntRange(1, 10**9),
    help=f"How many records to send, or lines of a log. [default: {_DEFAULT_RECORDS:,}; "
    f"with --spark {DEFAULT_LINES:,}]",
)
@click.option(
    "--record-size",
    type=click.IntRange(Ledger.smallest_value_bytes, _LARGEST_VALUE_BYTES),
    default=100,
    show_default=True,
    metavar="BYTES",
    help="Size of each value.",
)
@click.option(
    "--partitions",
    "partition_count",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Partitions of the topic.",
)
@click.option("--spark", "by_spark", is_flag=True, help="A web server's log, by Spark's streams.")
@verbose_option
def demo(
    client: ClientSettings,
    record_count: int | None,
    record_size: int,
    partition_count: int,
    by_spark: bool,
) -> None:
    """Send a million records to a new topic, read every one back, and compare.

    Without --bootstrap-server the topic is on a broker of the demo's own: `fastprod broker`, in
    memory, as a process that ends with it.

    It compares count, content, and the order for each key. Another Kafka client reads the records
    back: confluent-kafka or kafka-python, whichever is installed. The topic is called
    fastprod-demo-<random> and deleted at the end.

    The last 1,000 records (a tenth, if there are few) are sent one by one, each after the one
    before is acknowledged: theirs is the latency of a record that waits for nothing. The others are
    sent as fast as possible; their latency, measured on a sample, is mostly the time behind others.

    With --spark: a web server's log is parsed, enriched and counted by two of Spark's streams, into
    a topic of requests and one of figures for each minute; both are compared with what plain Python
    computes from the log. fastprod.spark.example is the program.
    """
    if by_spark:
        _refuse_given("record_size", "compression")
        check_installed()
    with contextlib.ExitStack() as stack:
        if client.bootstrap_servers is None:
            servers = stack.enter_context(broker_process())
            client = dataclasses.replace(client, bootstrap_servers=servers)
            click.echo(f"started a broker of our own at {servers}", err=True)
        if by_spark:
            run_spark_demo(client, record_count or DEFAULT_LINES, partition_count)
            return
        topic = f"fastprod-demo-{uuid.uuid4().hex[:12]}"
        plan = DemoPlan(client, topic, partition_count, installed_reader())
        ledger = Ledger(record_count or _DEFAULT_RECORDS, record_size, _KEY_COUNT)
        stack.enter_context(own_topic(client, topic, partition_count))
        outcome = _send(plan, ledger)
        _read(plan, ledger, outcome)
    _report(plan, ledger, outcome, record_size)
    differences = ledger.differences
    if differences:
        raise RecordsFailed(
            f"read back {ledger.read_count:,} of {ledger.record_count:,} records: {differences}"
        )


def _refuse_given(*names: str) -> None:
    """Refuse options of this command that have no meaning with --spark."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} says nothing with --spark: leave it out")


def _send(plan: DemoPlan, ledger: Ledger) -> DemoOutcome:
    """Send all records of the ledger.

    Raises:
        RecordsFailed: not all were delivered.
        Interrupted: Ctrl-C.
    """
    one_by_one_count = min(_ONE_BY_ONE_COUNT, ledger.record_count // 10)
    many_count = ledger.record_count - one_by_one_count
    records = ledger.records()
    producer = connected_producer(plan.client, plan.topic)
    try:
        every = max(1, many_count // SAMPLE_COUNT)
        workload = Workload(producer, plan.topic, records, every)
        with RecordProgress("delivered", many_count, line_period_s=5.0) as progress:
            many = workload.run(many_count, progress)
        if many.interrupted:
            raise Interrupted(f"interrupted: {many.delivered_count:,} records were delivered")
        if many.delivered_count != many_count:
            raise RecordsFailed(
                f"{many_count - many.delivered_count:,} of {many_count:,} records were not "
                f"delivered; the first error: {many.error or 'not among the sampled records'}"
            )
        one_by_one = _send_one_by_one(producer, plan.topic, records)
        # Now: the reader will take memory, too.
        return DemoOutcome(many, one_by_one, peak_memory_in_words())
    finally:
        with contextlib.suppress(UndeliveredError):
            producer.close(0)


def _send_one_by_one(
    producer: KafkaProducer, topic: str, records: Iterator[tuple[bytes, bytes]]
) -> LatencySamples:
    latencies = LatencySamples()
    for key, value in records:
        began_ns = time.perf_counter_ns()
        producer.send(topic, value, key).result()
        latencies.add_ns(time.perf_counter_ns() - began_ns)
    return latencies


def _read(plan: DemoPlan, ledger: Ledger, outcome: DemoOutcome) -> None:
    chunks = plan.reader.read(
        plan.client.servers, plan.topic, plan.partition_count, _READ_TIMEOUT_S
    )
    began_s = time.monotonic()
    try:
        with RecordProgress("read back", ledger.record_count, line_period_s=5.0) as progress:
            for chunk in chunks:
                ledger.check(chunk)
                progress.show(lambda: ledger.read_count)
    except TimeoutError as error:
        raise RecordsFailed(
            f"{error}; {ledger.read_count:,} of {ledger.record_count:,} records were read"
        ) from error
    outcome.read_s = time.monotonic() - began_s


def _report(plan: DemoPlan, ledger: Ledger, outcome: DemoOutcome, record_size: int) -> None:
    many, codec = outcome.many, plan.client.config.compression_type
    report = Report()
    report.line(
        "sent",
        f"{ledger.record_count:,} records of {record_size:,} bytes, {_KEY_COUNT:,} keys, "
        f"{plan.partition_count} partitions",
    )
    report.line(
        "read back",
        f"{ledger.read_count:,} records by {plan.reader.name} in {outcome.read_s:.1f} s: "
        f"{ledger.differences or 'count, content and order of each key are the same'}",
    )
    report.line("throughput", many.throughput_in_words(many.sent_count * record_size))
    report.line("latency", _told(many.latencies, "as fast as possible"))
    if len(outcome.one_by_one):
        report.line("", _told(outcome.one_by_one, "one by one"))
    report.line("CPU", many.cpu_in_words())
    report.line("peak memory", outcome.peak_memory)
    report.line("CRC-32C", crc32c.backend())
    used = compressor.describe().get(codec, "no compression")
    report.line("codec", used if codec == "none" else f"{codec}: {used}")
    report.print()


def _told(latencies: LatencySamples, how: str) -> str:
    return f"{latencies.in_words()} ({how})\n{latencies.histogram()}"
