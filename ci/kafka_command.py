"""The command behind ci/kafka: resolve Apache Kafka's jars, or start a cluster."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

import java_flags
import kafka_jars
from kafka_cluster import KafkaCluster
from kept_process import ProcessFailed


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ci/kafka", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "resolve", help=f"fetch Apache Kafka {kafka_jars.KAFKA_VERSION} with Maven, once"
    )
    start = commands.add_parser("start", help="run a cluster until Ctrl-C or SIGTERM")
    start.add_argument("--nodes", type=int, default=1, choices=(1, 3))
    start.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    start.add_argument("--heap", default="1g", help="-Xmx of each node (default 1g)")
    start.add_argument("--quick", action="store_true", help="JVMs that start fast and run slower")
    return parser.parse_args(argv)


def _settings(pairs: list[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SystemExit(f"ci/kafka: --config {pair}: expected KEY=VALUE")
        settings[key] = value
    return settings


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0 if number == signal.SIGINT else 128 + number)


def _start(arguments: argparse.Namespace) -> None:
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)
    kafka_jars.resolve()
    cluster = KafkaCluster(
        arguments.nodes,
        _settings(arguments.config),
        heap=arguments.heap,
        java=None if arguments.quick else java_flags.FULL_SPEED,
    )
    with cluster:
        print(
            f"Apache Kafka {kafka_jars.KAFKA_VERSION}, {arguments.nodes} node(s), ready at "
            f"{cluster.bootstrap_servers} (Ctrl-C stops it)",
            flush=True,
        )
        while True:
            signal.pause()


def main(argv: list[str]) -> int:
    """Run one command; return the exit code."""
    arguments = _arguments(argv)
    try:
        if arguments.command == "resolve":
            print(f"Apache Kafka {kafka_jars.KAFKA_VERSION}: {kafka_jars.resolve()}")
        else:
            _start(arguments)
    except (kafka_jars.KafkaUnavailable, ProcessFailed) as error:
        print(f"ci/kafka: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
