"""`fastprod produce`: lines of a file or pipe become records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from fastprod.cli.connected_producer import connected_producer
from fastprod.cli.failure import EXIT_CODES, Interrupted, RecordsFailed
from fastprod.cli.line_records import LineRecords
from fastprod.cli.options import (
    DEFAULT_BOOTSTRAP,
    bootstrap_option,
    compression_option,
    header_option,
    producer_options,
    producer_settings,
    timeout_option,
    verbose_option,
)
from fastprod.cli.progress import RecordProgress
from fastprod.cli.separator import separator
from fastprod.cli.tally import DeliveryTally
from fastprod.errors import KafkaError, UndeliveredError
from fastprod.producer import KafkaProducer

_LAST_CALL_S: Final = 5.0
_SHOW_EVERY: Final = 256


@click.command(epilog=EXIT_CODES)
@click.argument("topic")
@click.argument("file", type=click.File("rb"), default="-")
@bootstrap_option(required=False, default=DEFAULT_BOOTSTRAP)
@click.option(
    "-K",
    "--key-separator",
    type=separator,
    metavar="TEXT",
    help=r"Each line is a key, this, and a value; such as ':' or '\t'. Without it there are no "
    "keys. A line that lacks it counts as failed.",
)
@header_option
@compression_option
@producer_options
@timeout_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print the count at the end.")
@verbose_option
def produce(
    topic: str,
    file: BinaryIO,
    bootstrap_servers: str | None,
    key_separator: bytes | None,
    headers: Sequence[tuple[str, bytes]],
    compression: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    timeout_s: float,
    quiet: bool,
) -> None:
    r"""Send each line of FILE, or of standard input, as a record to TOPIC.

    A line ends at \n and may hold any other byte. Lines are sent as they come. Ctrl-C ends the
    reading; what was read is given 5 s to arrive.
    """
    config = producer_settings(
        bootstrap_servers, config_file, properties, "fastprod-produce", compression_type=compression
    )
    producer = connected_producer(config, topic, timeout_s)
    tally = DeliveryTally()
    records = LineRecords(file, key_separator or b"", config.max_request_size, tally.refuse)
    is_typed = file.isatty()
    if is_typed and not quiet:
        click.echo("type records, one a line; Ctrl-D ends", err=True)
    began_s = time.monotonic()
    interrupted = _send_all(producer, topic, records, list(headers), tally, shows=not is_typed)
    elapsed_s = time.monotonic() - began_s
    _conclude(topic, tally, elapsed_s, quiet, interrupted)


def _send_all(
    producer: KafkaProducer,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes]],
    headers: list[tuple[str, bytes]],
    tally: DeliveryTally,
    *,
    shows: bool,
) -> bool:
    """Send, and close the producer; True if Ctrl-C ended it."""
    interrupted = False
    patience_s = producer.config.delivery_timeout_ms / 1000 + _LAST_CALL_S
    try:
        with RecordProgress("delivered", None) as progress:
            for number, (key, value) in enumerate(records):
                producer.send(topic, value, key, headers, on_delivery=tally)
                if shows and number % _SHOW_EVERY == 0:
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
        pass  # every one of them is in the tally
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
        click.echo(f"{delivered:,} records delivered to {topic} in {elapsed_s:.2f} s")
    sys.stdout.flush()
