"""The table of two sides: medians and ratios, figure by figure."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

_NAME_WIDTH = 44


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure of one point.

    Attributes:
        name: point and figure, as in "stop.disk.fsyncs".
        this: median of this checkout's runs.
        other: median of the other's; None: there is no other.
    """

    name: str
    this: float
    other: float | None

    @property
    def ratio(self) -> float | None:
        """What this takes, in parts of what the other takes; None without the other."""
        if self.other is None:
            return None
        if self.other == 0:
            return 1.0 if self.this == 0 else math.inf
        return self.this / self.other


def rows(point: str, runs: Sequence[Sequence[Mapping[str, float]]]) -> list[Row]:
    """A row for each figure, in the order of the first run.

    Args:
        point: its name.
        runs: of this checkout and, if there is one, of the other: each run's figures.

    Raises:
        ValueError: two runs have not the same figures: a median would hide it.
    """
    names = list(runs[0][0])
    for run in (run for side in runs for run in side):
        if set(run) != set(names):
            raise ValueError(f"{point}: figures {sorted(run)} beside {sorted(names)}")
    medians = [[statistics.median(run[name] for run in side) for name in names] for side in runs]
    others: Sequence[float | None] = medians[1] if len(medians) > 1 else [None] * len(names)
    return [
        Row(f"{point}.{name}", this, other)
        for name, this, other in zip(names, medians[0], others, strict=True)
    ]


def head() -> str:
    """The line above the rows."""
    return f"{'point':{_NAME_WIDTH}} | {'this':>12} | {'other':>12} | ratio"


def line(row: Row) -> str:
    """One row of the table."""
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    return (
        f"{row.name:{_NAME_WIDTH}} | {_number(row.this):>12} | {_number(row.other):>12} | {ratio}"
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3f}"
