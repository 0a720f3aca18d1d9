"""The command behind bench/run: the macro benchmarks, their tables and their verdict.

Every client runs in a fresh process, clients take turns, and what each delivered is compared with
what the server has. With --accept, finished points are kept in logs/bench-accept.json and are not
measured again while the sources are the same; one that has missed a bound is.
Exit code 1: a budget (with --accept, also a limit) is missed. An aim that is missed is only told.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import accept
import checkout
from bench import budget, plots, report
from bench.contests import grid
from bench.kept_points import KeptPoints
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
from bench.measured_point import MeasuredPoint
from bench.point import Point
from bench.series import Series
from bench.servers.server import Server
from bench.servers.servers import SERVERS, Servers

_STEP = "peers"
_KEPT = checkout.ROOT / "logs" / "bench-accept.json"
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
    if given.accept and (given.only or given.quick or given.json or given.plots):
        parser.error("--accept measures all points, as they are: give nothing beside it")
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


def _figures(point: Point, series: Mapping[str, Series]) -> dict[str, float]:
    return {f"{point.name}.{name}": value for name, value in point.figures(series).items()}


def _table(
    point: Point,
    measured: list[dict[str, Series]],
    server: Server,
    figures: Mapping[str, float],
) -> str:
    tables = [report.table(point, series, server.name) for series in measured]
    return "\n".join([*tables, report.figure_lines(figures)])


def _measure(
    points: list[Point], conditions: Mapping[str, str], plots_folder: Path | None
) -> tuple[dict[str, Any], list[budget.Verdict]]:
    """What --json writes, and how the budgets are kept."""
    bounds = _bounds()
    found: dict[str, Any] = {}
    verdicts: list[budget.Verdict] = []
    grids: list[grid.Grid] = []
    with Servers() as servers:
        for point in points:
            server = servers[point.server]
            measured = point.measured(server, _say)
            _say("")
            figures = _figures(point, measured[-1])
            print(_table(point, measured, server, figures), end="\n\n", flush=True)
            verdicts += budget.judge(bounds, point.name, figures, {"budget"})
            if plots_folder is not None:
                plots.draw(point, measured[0], plots_folder)
            if point.contest is not None:
                grids.append(grid.Grid(point, server.name, *measured))
            rows = [row for series in measured for row in report.as_json(series)]
            found[point.name] = {"rows": rows, "figures": figures}
    if grids and plots_folder is not None:
        grid.write(plots_folder, grids, bounds, conditions)
    return found, verdicts


def _sources() -> str:
    """Fingerprint of what figures depend on: all that the step counts but the bounds."""
    (step,) = (each for each in accept.steps() if each.name == _STEP)
    return accept.fingerprint(checkout.ROOT, step, {budget.BUDGET_FILE.relative_to(checkout.ROOT)})


def _accept(points: list[Point]) -> list[budget.Verdict]:
    """How every bound is kept; measured is what is not finished, or has missed a bound."""
    bounds = _bounds()
    verdicts: list[budget.Verdict] = []
    kept = KeptPoints(_KEPT, _sources())
    with Servers() as servers:
        for point in points:
            judge = functools.partial(budget.judge, bounds, point.name, kinds=budget.KINDS)
            given = kept.get(point.name)
            found = None if given is None else MeasuredPoint(**given)
            if found is None or any(each.is_failure for each in judge(found.figures)):
                found = _measured(point, servers[point.server], found)
                kept.keep(point.name, dataclasses.asdict(found))
            print(f"{found.table}\n    {found.history}", end="\n\n", flush=True)
            verdicts += judge(found.figures)
    return verdicts


def _measured(point: Point, server: Server, before: MeasuredPoint | None) -> MeasuredPoint:
    measured = point.measured(server, _say)
    _say("")
    figures = _figures(point, measured[-1])
    return MeasuredPoint.now(_table(point, measured, server, figures), figures, before)


def _bounds() -> list[budget.Bound]:
    bounds = budget.read_bounds()
    budget.check_points(bounds, {point.name for point in all_points()})
    return bounds


def main(argv: list[str]) -> int:
    given = _arguments(argv)
    points = _chosen(given)
    if given.list or not points:
        print("\n".join(point.name for point in points or all_points()))
        return 0 if given.list else 2
    conditions = report.machine()
    print("\n".join(f"{name}: {value}" for name, value in conditions.items()), end="\n\n")
    found: dict[str, Any] = {}
    if given.accept:
        verdicts = _accept(points)
    else:
        found, verdicts = _measure(points, conditions, given.plots)
    print(report.verdict_lines(verdicts))
    missed = [each for each in verdicts if each.is_failure]
    print(f"{len(verdicts)} bounds, {len(missed)} missed")
    if given.json is not None:
        given.json.write_text(
            json.dumps({"conditions": conditions, "points": found}, indent=1) + "\n"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
