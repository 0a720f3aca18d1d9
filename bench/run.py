"""The command behind bench/run: the macro benchmarks, their tables and their verdict.

Every client runs in a fresh process, clients take turns, and what each delivered is compared with
what the server has. Exit code 1: a budget (with --accept, also a limit) is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import budget, plots, report
from bench.contests import grid
from bench.macro import (
    awaiting,
    broker,
    cold,
    conditions,
    defaults,
    latency,
    memory,
    scale,
    spinner,
    throughput,
    transactions,
)
from bench.point import Point
from bench.server import BrokerServer, KafkaServer, MockServer, Server

SERVERS: dict[str, Callable[[], Server]] = {
    "mock": MockServer,
    "discard": functools.partial(BrokerServer, "discard"),
    "discard_tls": functools.partial(BrokerServer, "discard", has_tls=True),
    "memory": functools.partial(BrokerServer, "memory"),
    "disk": functools.partial(BrokerServer, "disk"),
    "hundred": functools.partial(BrokerServer, "discard", nodes=100),
    "distant": functools.partial(BrokerServer, "discard", later_ms=(20,)),
    "slowed": functools.partial(BrokerServer, "discard", later_ms=(0, 0, 200)),
    "kafka": KafkaServer,
    "kafka_tls": functools.partial(KafkaServer, has_tls=True),
}
_QUICK_ROUNDS = 3
_QUICK_DIVISOR = 4


def all_points() -> list[Point]:
    """Every point, those of one server together."""
    found = [
        *throughput.points(),
        *latency.points(),
        *cold.points(),
        *awaiting.points(),
        *memory.points(),
        *spinner.points(),
        *broker.points(),
        *scale.points(),
        *conditions.points(),
        *defaults.points(),
        *transactions.points(),
    ]
    return sorted(found, key=lambda point: list(SERVERS).index(point.server))


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="POINT",
        help="only points whose names begin so; may be given more than once",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{_QUICK_ROUNDS} rounds, a quarter of the records, without Apache Kafka",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs there")
    parser.add_argument(
        "--plots",
        type=Path,
        metavar="FOLDER",
        help="draw each point there, as SVG files; and the page of the defaults",
    )
    parser.add_argument(
        "--accept", action="store_true", help="all points, and the project's limits must hold"
    )
    parser.add_argument("--list", action="store_true", help="print the points' names and end")
    given = parser.parse_args(argv)
    if given.accept and (given.only or given.quick):
        parser.error("--accept takes all points as they are: leave out --only and --quick")
    return given


def _chosen(given: argparse.Namespace) -> list[Point]:
    points = [
        point
        for point in all_points()
        if not given.only or any(point.name.startswith(prefix) for prefix in given.only)
    ]
    if given.quick:
        points = [
            point.shortened(_QUICK_ROUNDS, _QUICK_DIVISOR)
            for point in points
            if not point.server.startswith("kafka")
        ]
    return points


def _say(text: str) -> None:
    """Progress goes to the terminal's last line, the result to standard output."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _measure(
    points: list[Point], conditions: Mapping[str, str], accept: bool, plots_folder: Path | None
) -> tuple[dict[str, Any], list[budget.Verdict]]:
    bounds = budget.read_bounds()
    budget.check_points(bounds, {point.name for point in all_points()})
    kinds = budget.KINDS if accept else ("budget",)
    found: dict[str, Any] = {}
    verdicts: list[budget.Verdict] = []
    grids: list[grid.Grid] = []
    with contextlib.ExitStack() as stack:
        running: dict[str, Server] = {}
        for point in points:
            if point.server not in running:
                stack.close()
                running = {point.server: stack.enter_context(SERVERS[point.server]())}
            server = running[point.server]
            measured = point.measured(server, _say)
            _say("")
            figures = {f"{point.name}.{n}": v for n, v in point.figures(measured[-1]).items()}
            for series in measured:
                print(report.table(point, series, server.name))
            print(report.figure_lines(figures), end="\n\n", flush=True)
            verdicts += budget.judge(bounds, point.name, figures, kinds)
            if plots_folder is not None:
                plots.draw(point, measured[0], plots_folder)
            if point.contest is not None:
                grids.append(grid.Grid(point, server.name, *measured))
            rows = [row for series in measured for row in report.as_json(series)]
            found[point.name] = {"rows": rows, "figures": figures}
    if grids and plots_folder is not None:
        grid.write(plots_folder, grids, bounds, conditions)
    return found, verdicts


def main(argv: list[str]) -> int:
    given = _arguments(argv)
    points = _chosen(given)
    if given.list or not points:
        print("\n".join(point.name for point in points or all_points()))
        return 0 if given.list else 2
    conditions = report.machine()
    print("\n".join(f"{name}: {value}" for name, value in conditions.items()), end="\n\n")
    found, verdicts = _measure(points, conditions, given.accept, given.plots)
    print(report.verdict_lines(verdicts))
    missed = [each for each in verdicts if not each.is_kept]
    print(f"{len(verdicts)} bounds, {len(missed)} missed")
    if given.json is not None:
        given.json.write_text(
            json.dumps({"conditions": conditions, "points": found}, indent=1) + "\n"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
