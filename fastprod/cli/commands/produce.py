"""`fastprod produce`: lines of a file or pipe become records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Final

import click

from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.options.client_settings import (
    PRODUCER_OPTIONS,
    ClientSettings,
    client_options,
    compression_option,
)
from fastprod.cli.options.common import header_option, quiet_option, verbose_option
from fastprod.cli.options.separator import separator
from fastprod.cli.output.failure import EXIT_CODES, Interrupted, RecordsFailed
from fastprod.cli.output.record_progress import RecordProgress
from fastprod.cli.output.standard_output import print_out
from fastprod.cli.output.tally import DeliveryTally
from fastprod.cli.records.line_records import LineRecords
from fastprod.errors import KafkaError, UndeliveredError
from fastprod.producer import KafkaProducer

_LAST_CALL_S: Final = 5.0
_SHOW_EVERY: Final = 256


@click.command(epilog=EXIT_CODES)
@click.argument("topic")
@click.argument("file", type=click.File("rb"), default="-")
@client_options("fastprod-produce", *PRODUCER_OPTIONS, compression_option)
@click.option(
    "-K",
    "--key-separator",
    type=separator,
    metavar="TEXT",
    help=r"What stands between key and value in each line, such as ':' or '\t'; a line without it "
    "counts as failed. [default: the lines have no keys]",
)
@header_option
@quiet_option
@verbose_option
def produce(
    topic: str,
    file: BinaryIO,
    client: ClientSettings,
    key_separator: bytes | None,
    headers: Sequence[tuple[str, bytes]],
    quiet: bool,
) -> None:
    r"""Send each line of FILE, or of standard input, as a record to TOPIC.

    A line ends at \n and may hold any other byte. Lines are sent as they come. After Ctrl-C
    nothing more is read, and what was read has 5 s to be delivered.
    """
    producer = connected_producer(client, topic)
    tally = DeliveryTally()
    records = LineRecords(file, key_separator or b"", client.config.max_request_size, tally.refuse)
    is_typed = file.isatty()
    if is_typed and not quiet:
        click.echo("type records, one a line; Ctrl-D ends", err=True)
    began_s = time.monotonic()
    interrupted = _send_all(producer, topic, records, list(headers), tally, is_typed=is_typed)
    elapsed_s = time.monotonic() - began_s
    _conclude(topic, tally, elapsed_s, quiet, interrupted)


def _send_all(
    producer: KafkaProducer,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes]],
    headers: list[tuple[str, bytes]],
    tally: DeliveryTally,
    *,
    is_typed: bool,
) -> bool:
    """Send, and close the producer; True if Ctrl-C ended it."""
    interrupted = False
    patience_s = producer.config.delivery_timeout_ms / 1000 + _LAST_CALL_S
    try:
        # A bar would write over the line that is being typed.
        with RecordProgress("delivered", None, has_bar=not is_typed) as progress:
            for number, (key, value) in enumerate(records):
                producer.send(topic, value, key, headers, on_delivery=tally)
                if number % _SHOW_EVERY == 0:
                    progress.show(lambda: tally.delivered_count)
    except KeyboardInterrupt:
        interrupted, patience_s = True, _LAST_CALL_S
    except KafkaError as error:
        tally.refuse(str(error))
    except OSError as error:
        tally.refuse(f"reading failed: {error.strerror or error}")
    try:
        producer.close(patience_s)
    except UndeliveredError:
        pass  # the tally has counted them
    except KeyboardInterrupt:
        interrupted = True
    return interrupted


def _conclude(
    topic: str, tally: DeliveryTally, elapsed_s: float, quiet: bool, interrupted: bool
) -> None:
    delivered, failed = tally.delivered_count, tally.failed_count
    if interrupted:
        raise Interrupted(f"interrupted: {delivered:,} records delivered, {failed:,} failed")
    if failed:
        raise RecordsFailed(
            f"{delivered:,} records delivered, {failed:,} failed; the first: {tally.first_error}"
        )
    if not quiet:
        print_out(f"{delivered:,} records delivered to {topic} in {elapsed_s:.2f} s")
