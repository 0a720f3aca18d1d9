"""`fastprod broker`: a broker for tests and development, as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import click

from fastprod.broker.broker import Broker
from fastprod.cli.ending_signals import ending_signals
from fastprod.cli.options.broker_security import BrokerSecurityOptions, broker_security_options
from fastprod.cli.options.common import verbose_option
from fastprod.cli.output.failure import EXIT_CODES, Unreachable
from fastprod.cli.output.standard_output import print_out

_DEFAULT_PORT = 9092
_LOOK_S = 0.5


@click.command(epilog=EXIT_CODES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_DEFAULT_PORT,
    show_default=True,
    help="Port to listen on, of several nodes the first one's; 0: any that is free.",
)
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of nodes; they share one process.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:PARTITIONS]",
    help="A topic to start with; may be repeated.",
)
@click.option(
    "--partitions",
    "partition_count",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Partitions of topics that are made because a client asks for them.",
)
@click.option("--no-auto-create", is_flag=True, help="Make no topic because a client asks for it.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the records in Kafka's segment files in this folder, not in memory.",
)
@click.option("--discard", is_flag=True, help="Check and acknowledge records, and keep none.")
@click.option(
    "--sync",
    type=click.Choice(["never", "interval", "batch"]),
    default="never",
    show_default=True,
    help="When to force files to the disk; what a killed process wrote is safe in any case.",
)
@click.option(
    "--validation",
    type=click.Choice(["full", "crc", "none"]),
    default="full",
    show_default=True,
    help="How much of each batch to check.",
)
@click.option(
    "--max-versions",
    metavar="RELEASE",
    help="Offer no newer versions than this release of Kafka, such as 2.8.",
)
@broker_security_options
@click.option("--end-with-stdin", is_flag=True, hidden=True)
@verbose_option
def broker(
    host: str,
    port: int,
    node_count: int,
    topics: tuple[str, ...],
    partition_count: int,
    no_auto_create: bool,
    data_dir: Path | None,
    discard: bool,
    sync: str,
    validation: str,
    max_versions: str | None,
    security: BrokerSecurityOptions,
    end_with_stdin: bool,
) -> None:
    """Run a Kafka broker, for tests and development, until Ctrl-C, SIGTERM or SIGHUP.

    When clients can connect it prints one line with its address to stdout. Not for production:
    there is only one copy of each record. With TLS or users a second line names the files with
    the settings for clients.
    """
    if discard and data_dir is not None:
        raise click.UsageError("--discard keeps no records: leave --data-dir out")
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    previous = {number: signal.signal(number, end) for number in ending_signals()}
    try:
        served = Broker(
            brokers=node_count,
            topics=_topics(topics),
            host=host,
            port=security.port(port),
            data_dir=data_dir,
            discard=discard,
            validation=validation,
            sync=sync,
            auto_create_topics=not no_auto_create,
            num_partitions=partition_count,
            max_versions=max_versions,
            **security.arguments(),
        )
        with served, security.files(served) as files_line:
            print_out(_start_line(served.bootstrap_servers, data_dir, discard, validation))
            if files_line:
                print_out(files_line)
            if end_with_stdin:
                threading.Thread(target=_await_end_of_stdin, args=(ended,), daemon=True).start()
            # A signal that another thread takes does not wake this one.
            while not ended.wait(_LOOK_S):
                pass
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise Unreachable(f"cannot serve on {host}:{port}: {error}") from error
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _topics(texts: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in map(_topic, texts):
        if found.setdefault(name, count) != count:
            raise click.UsageError(f"--topic {name}: given with {found[name]} and with {count}")
    return found


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if count and not count.isdecimal():
        raise click.UsageError(f"--topic {text}: {count!r} is not a number of partitions")
    return name, int(count or 1)


def _start_line(servers: str, data_dir: Path | None, discard: bool, validation: str) -> str:
    kept = "records are discarded" if discard else "records are kept in memory"
    if data_dir is not None:
        kept = f"records are kept in {data_dir}"
    return f"fastprod broker listening on {servers}; {kept}; validation {validation}"


def _await_end_of_stdin(ended: threading.Event) -> None:
    """End with the process that started this one: then its end of the pipe is closed."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    ended.set()
