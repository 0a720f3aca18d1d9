"""The command behind bench/turns_run: what sending costs here, in parts of another checkout's cost.

Two producers, in a process each, send in turns of some ten milliseconds to one mock cluster: what
the machine does meanwhile meets both. A process has its own luck with where its memory lies, worth
some percent: every _TURNS_OF_A_BOUT turns both are started anew, the other one first. A ratio is
the median of those of single turns. Every record is acknowledged. A way that fails is told, and
ends with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
from pathlib import Path

from bench.cliffs.side import Side, WrongResult
from bench.servers.server import MockServer
from bench.turns.contestant import Contestant
from bench.turns.way import WAYS

_ROOT = Path(__file__).resolve().parents[2]
_TURNS = 120
_TURNS_OF_A_BOUT = 15

Turns = list[tuple[float, float]]
"""CPU and wall time of each turn, microseconds a record."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/turns_run", description=__doc__)
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="another checkout, built; needed"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WAY",
        help="only ways whose names begin so; may be given more than once",
    )
    parser.add_argument(
        "--turns", type=int, default=_TURNS, metavar="N", help="of each side; default: %(default)s"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all turns there")
    parser.add_argument("--list", action="store_true", help="print what the ways are, and end")
    given = parser.parse_args(argv)
    if not given.list and (given.against is None or given.turns < 1):
        parser.error("--against needs a checkout, and --turns is 1 or more")
    return given


def take_turns(way: str, sides: list[Side], turns: int, servers: str) -> list[Turns]:
    """Let the sides send, in an order drawn for each turn; return the turns of each.

    Raises:
        WrongResult: a client failed.
    """
    found: list[Turns] = [[] for _ in sides]
    numbers = list(range(len(sides)))
    order = random.Random(way)
    for begun in range(0, turns, _TURNS_OF_A_BOUT):
        with contextlib.ExitStack() as stack:
            running = {
                number: stack.enter_context(Contestant(sides[number], way, servers))
                for number in numbers
            }
            for _ in range(min(_TURNS_OF_A_BOUT, turns - begun)):
                for number in order.sample(numbers, len(numbers)):
                    found[number].append(running[number].turn())
        numbers.reverse()
    return found


def line(way: str, this: Turns, other: Turns) -> str:
    """A row: medians of both, and the median and the quartiles of the turns' ratios."""
    cells = [f"{way:18}"]
    for index in range(2):
        ratios = sorted(
            mine[index] / theirs[index] for mine, theirs in zip(this, other, strict=True)
        )
        medians = [statistics.median(turn[index] for turn in side) for side in (this, other)]
        quarter = len(ratios) // 4
        cells.append(
            f"{medians[0]:7.3f} | {medians[1]:7.3f} | {statistics.median(ratios):5.3f}"
            f" ({ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f})"
        )
    return " | ".join(cells)


def main(argv: list[str]) -> int:
    given = _arguments(argv)
    names = [name for name in WAYS if not given.only or name.startswith(tuple(given.only))]
    if given.list or not names:
        print("\n".join(f"{name}: {way.meaning}" for name, way in WAYS.items()))
        return 0 if given.list else 2
    sides = [Side("this", _ROOT), Side("other", given.against.resolve())]
    print("microseconds a record, CPU and wall time; ratio: median of the turns (quartiles)")
    print(f"{'way':18} | CPU this | other | ratio | wall this | other | ratio")
    found = {}
    failed = 0
    with MockServer() as server:
        for name in names:
            try:
                found[name] = take_turns(name, sides, given.turns, server.client_servers)
            except WrongResult as error:
                print(f"FAILED: {error}", flush=True)
                failed += 1
                continue
            print(line(name, *found[name]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
