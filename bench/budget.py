"""Budgets, limits and aims of the project, from a TOML file, held against what was measured."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

BUDGET_FILE = Path(__file__).with_name("budget.toml")
KINDS = ("limit", "budget", "aim")
_LOOSEST = 2.0


@dataclasses.dataclass(frozen=True)
class Bound:
    """What one figure must keep.

    Args:
        figure: dotted name: the point's, then the figure's.
        kind: "budget" (every run), "limit" (the project's promise), or "aim" (what the project
            wants and does not reach on every machine: it is told, and nothing fails by it).
        low: at least this, or None.
        high: at most this, or None.
    """

    figure: str
    kind: str
    low: float | None
    high: float | None

    @property
    def point(self) -> str:
        return self.figure.rpartition(".")[0]

    def holds(self, value: float) -> bool:
        """False for NaN, too."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is not None:
            return f"at least {self.low:g}"
        return f"at most {self.high:g}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A bound and the figure that it met; NaN: the figure is missing."""

    bound: Bound
    value: float

    @property
    def is_kept(self) -> bool:
        return self.bound.holds(self.value)

    @property
    def is_failure(self) -> bool:
        """Whether a run fails by it."""
        return not self.is_kept and self.bound.kind != "aim"


class BudgetError(ValueError):
    """The file of bounds is wrong."""


def read_bounds(path: Path = BUDGET_FILE) -> list[Bound]:
    """All bounds of the file.

    Raises:
        BudgetError: a table is none of [limit], [budget] and [aim]; a bound has not exactly one of
            at_least and at_most; or a budget is further than a factor of 2 from what it says was
            measured: such a budget would never fail.
    """
    bounds = []
    for kind, table in tomllib.loads(path.read_text()).items():
        if kind not in KINDS:
            raise BudgetError(f"{path.name}: a table is [limit], [budget] or [aim], not [{kind}]")
        for figure, given in table.items():
            low, high = given.get("at_least"), given.get("at_most")
            if (low is None) == (high is None):
                raise BudgetError(f"{figure}: give at_least or at_most, one of them")
            if kind == "budget":
                _check_distance(figure, low, high, given)
            bounds.append(Bound(figure, kind, low, high))
    return bounds


def _check_distance(
    figure: str, low: float | None, high: float | None, given: dict[str, Any]
) -> None:
    measured = given["measured"]
    too_loose = (low is not None and low * _LOOSEST < measured) or (
        high is not None and high > measured * _LOOSEST
    )
    if too_loose:
        raise BudgetError(f"{figure}: the budget is more than {_LOOSEST:g}x from {measured}")


def check_points(bounds: list[Bound], points: Collection[str]) -> None:
    """Raises: BudgetError, when a bound names a point that there is not: it would never fail."""
    for bound in bounds:
        if bound.point not in points:
            raise BudgetError(f"{bound.figure}: there is no point {bound.point}")


def judge(
    bounds: list[Bound], point: str, figures: Mapping[str, float], kinds: Collection[str]
) -> Iterator[Verdict]:
    """Each bound of one point; a missing figure breaks it."""
    for bound in bounds:
        if bound.kind in kinds and bound.point == point:
            yield Verdict(bound, figures.get(bound.figure, math.nan))
