"""Grid: what a contest of the defaults with linger_ms and batch_size brought, and its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.budget import Bound, judge
from bench.contests.contest import P99, RATE
from bench.machine_load import FOREIGN_LIMIT
from bench.point import Point
from bench.series import Series

PAGE: Final = "defaults.md"
COMMAND: Final = "bench/run --only defaults --plots docs/benchmarks"
_HEAD: Final = """\
# The defaults beside a grid of `linger_ms` and `batch_size`

`{command}` made this page and its pictures, and makes them anew.

{conditions}

Every run is a process of its own: one thread sends records of 100 B to one partition, and what
arrived is compared with what was sent. Flat out nobody waits for a record before the end. At a
pace, what is due is sent at the beginning of each millisecond, or of each record's interval where
that is longer, without waiting for what was sent before; a record's time is from the call of `send`
to its callback. 10 records/s are those of each of 20 producers that take turns, as one alone would
need minutes for a p99.

All cells run once a round, every second round backwards. Who is {hopeless:g} times worse than the
best is left out of the rounds that follow; the tables have the medians. The best of many is best
partly by luck. So the best {finalists} run once more beside the defaults, in {rounds} rounds that
alone make the verdict: the median over these rounds of the defaults' number in parts of the
other's, for the one of the {finalists} beside which the defaults do worse. In {disturbed} of
{runs} runs others used more than {foreign:.0%} of the machine.

| server | records/s | | defaults | best of the grid | this | defaults in parts of it | limit |
|---|---|---|---|---|---|---|---|
"""


@dataclasses.dataclass(frozen=True)
class Grid:
    """One point's.

    Args:
        point: with a contest; its contenders differ in linger_ms and batch_size.
        server: what the server is called.
        everybody: the series of all cells, by label.
        finals: those of the final rounds.
    """

    point: Point
    server: str
    everybody: Mapping[str, Series]
    finals: Mapping[str, Series]

    def verdict_rows(self, bounds: list[Bound]) -> Iterator[str]:
        """A row for each figure of the point: who is best, and what of it the defaults have."""
        contest = self.point.contest
        assert contest is not None
        figures = self.point.figures(self.finals)
        for measure in (P99, RATE):
            name = f"{measure.name}_of_best"
            if name not in figures:
                continue
            label, _ = contest.rival(self.finals, measure)
            ours, theirs = (
                self.finals[each].median(measure.number) for each in (contest.judged, label)
            )
            full_name = f"{self.point.name}.{name}"
            limits = [
                f"{each.bound}{'' if each.is_kept else ', **missed**'}"
                for each in judge(bounds, self.point.name, {full_name: figures[name]}, ["limit"])
                if each.bound.figure == full_name
            ]
            _, server, pace = self.point.name.split(".")
            cells = [
                server,
                pace.removesuffix("_per_s").replace("_", " "),
                measure.title,
                f"{ours:,.0f}",
                label,
            ]
            cells += [f"{theirs:,.0f}", f"{figures[name]:.2f}", ", ".join(limits)]
            yield _row(cells)

    def section(self) -> str:
        """Its table: a row for each linger, a column for each size of batches."""
        contest = self.point.contest
        assert contest is not None
        cells = by_setting(self.everybody)
        batches = list(dict.fromkeys(batch for _, batch in cells))
        lines = [
            f"## {self.point.title}\n",
            f"{self.server}. {contest.measure.title}:\n",
            _row(["`linger_ms`", *(f"`batch_size` {setting_text(each)}" for each in batches)]),
            _row(["---"] * (1 + len(batches))),
        ]
        for linger in dict.fromkeys(linger for linger, _ in cells):
            row = [setting_text(linger)]
            for batch in batches:
                series = cells.get((linger, batch))
                row.append(f"{series.median(contest.measure.number):,.0f}" if series else "")
            lines.append(_row(row))
        return "\n".join([*lines, f"\n![{self.point.title}]({self.point.name}.grid.svg)\n"])


def by_setting(series: Mapping[str, Series]) -> dict[tuple[int | None, int | None], Series]:
    """The series by linger_ms and batch_size; None is the default."""
    loads = {label: each.contender.workload for label, each in series.items()}
    return {
        (loads[label].linger_ms, loads[label].batch_bytes): each for label, each in series.items()
    }


def setting_text(value: int | None) -> str:
    """A value of a setting, for readers."""
    return "default" if value is None else f"{value:,}"


def write(
    folder: Path, grids: Sequence[Grid], bounds: list[Bound], conditions: Mapping[str, str]
) -> Path:
    """Write the page of all grids that a run measured.

    Args:
        folder: where the page goes; its pictures are there.
        grids: in the order of the page.
        bounds: of all points.
        conditions: what the figures depend on.

    Returns: the file, which replaces that of the run before.
    """
    contest = grids[0].point.contest
    assert contest is not None
    series = [
        each for grid in grids for found in (grid.everybody, grid.finals) for each in found.values()
    ]
    head = _HEAD.format(
        command=COMMAND,
        conditions="\n".join(f"* {name}: {value}" for name, value in conditions.items()),
        hopeless=contest.hopeless,
        finalists=contest.finalists,
        rounds=contest.rounds,
        disturbed=sum(each.disturbed_count for each in series),
        runs=sum(len(each.runs) for each in series),
        foreign=FOREIGN_LIMIT,
    )
    rows = [row for grid in grids for row in grid.verdict_rows(bounds)]
    sections = [grid.section() for grid in grids]
    path = folder / PAGE
    path.write_text(head + "\n".join([*rows, "", *sections]))
    return path


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
