"""The command behind bench/cliffs_run: what costs far more than its share when there is much of it.

With --against the same points are measured in turn for another built checkout, say of an older
commit, in processes that run its fastprod and this checkout's benchmark. CPU is that of the
measured process alone. A point that fails is told, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from bench.cliffs import table
from bench.cliffs.point import CliffPoint
from bench.cliffs.points import answers, callbacks, create, disk, hints, idle, topics
from bench.cliffs.side import Figures, Side, WrongResult
from bench.machine_load import MachineLoad, wait_until_quiet

_ROOT = Path(__file__).resolve().parents[2]
_QUIET_TIMEOUT_S = 3.0


def all_points() -> list[CliffPoint]:
    """Every point."""
    modules = (answers, topics, hints, idle, callbacks, create, disk)
    return [point for module in modules for point in module.POINTS]


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/cliffs_run", description=__doc__)
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="another one, built: it is measured, too"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="POINT",
        help="only points whose names begin so; may be given more than once",
    )
    parser.add_argument("--quick", action="store_true", help="one round, a fifth of the size")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often, for every point")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs there")
    parser.add_argument("--list", action="store_true", help="print what the points are, and end")
    return parser.parse_args(argv)


@dataclasses.dataclass(frozen=True)
class _Measured:
    """A point's runs, by side; `foreign_share`: most of the machine that others took in one."""

    runs: list[list[Figures]]
    foreign_share: float


def _measure(point: CliffPoint, sides: list[Side], rounds: int, is_quick: bool) -> _Measured:
    runs: list[list[Figures]] = [[] for _ in sides]
    foreign_share = 0.0
    for number in range(1, rounds + 1):
        for side, found in zip(sides, runs, strict=True):
            print(f"{point.name}: round {number}, {side.label}", file=sys.stderr, flush=True)
            wait_until_quiet([], _QUIET_TIMEOUT_S)
            load = MachineLoad([])
            found.append(point.run(side, is_quick))
            foreign_share = max(foreign_share, load.foreign_share())
    return _Measured(runs, foreign_share)


def main(argv: list[str]) -> int:
    given = _arguments(argv)
    points = [
        point
        for point in all_points()
        if not given.only or any(point.name.startswith(prefix) for prefix in given.only)
    ]
    if given.list or not points:
        print("\n".join(f"{point.name}: {point.meaning}" for point in points or all_points()))
        return 0 if given.list else 2
    sides = [Side("this", _ROOT)]
    if given.against is not None:
        sides.append(Side("other", given.against.resolve()))
    found: dict[str, Any] = {}
    failed = 0
    print(table.head())
    for point in points:
        rounds = given.rounds or (1 if given.quick else point.rounds)
        try:
            measured = _measure(point, sides, rounds, given.quick)
        except WrongResult as error:
            print(f"{point.name}: FAILED: {error}", flush=True)
            failed += 1
            continue
        rows = table.rows(point.name, measured.runs)
        for row in rows:
            print(table.line(row), flush=True)
        print(f"    {rounds} rounds; others took up to {measured.foreign_share:.0%} of the machine")
        found[point.name] = {
            "meaning": point.meaning,
            "runs": dict(zip((side.label for side in sides), measured.runs, strict=True)),
            "ratios": {row.name: row.ratio for row in rows},
            "foreign_share": measured.foreign_share,
        }
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
