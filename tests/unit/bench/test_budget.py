"""bench.budget: what a file of bounds may say, and what breaks a bound."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench import budget
from bench.budget import Bound, BudgetError

LIMIT = '[limit]\n"a.b.rate" = { at_least = 2.0 }\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bounds.toml"


def test_limits_need_no_budgets_beside_them(file: Path) -> None:
    file.write_text(LIMIT)
    assert budget.read_bounds(file) == [Bound("a.b.rate", "limit", 2.0, None)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LIMIT.replace("limit", "limits"), r"not \[limits\]"),
        (LIMIT.replace("2.0", "2.0, at_most = 3.0"), "one of them"),
        (LIMIT.replace("at_least = 2.0", ""), "one of them"),
        (LIMIT.replace("limit", "budget").replace("2.0", "2.0, measured = 4.1"), "more than 2x"),
    ],
)
def test_a_bound_that_would_never_fail_is_refused(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(BudgetError, match=told):
        budget.read_bounds(file)


def test_a_bound_of_a_point_that_there_is_not_is_refused(file: Path) -> None:
    file.write_text(LIMIT)
    budget.check_points(budget.read_bounds(file), ["a.b"])
    with pytest.raises(BudgetError, match=r"there is no point a\.b"):
        budget.check_points(budget.read_bounds(file), ["a.c"])


@pytest.mark.parametrize(
    ("figures", "is_kept"),
    [
        ({"a.b.rate": 2.0}, True),
        ({"a.b.rate": 1.99}, False),
        ({"a.b.rat": 9.0}, False),
        ({}, False),
    ],
)
def test_a_missing_figure_breaks_its_bound(figures: dict[str, float], is_kept: bool) -> None:
    bounds = [Bound("a.b.rate", "limit", 2.0, None), Bound("a.c.rate", "limit", 2.0, None)]
    (verdict,) = budget.judge(bounds, "a.b", figures, budget.KINDS)
    assert verdict.is_kept is is_kept
    assert math.isnan(verdict.value) is ("a.b.rate" not in figures)


@pytest.mark.parametrize(
    ("kind", "is_failure"), [("limit", True), ("budget", True), ("aim", False)]
)
def test_an_aim_that_is_missed_fails_nothing(kind: str, is_failure: bool) -> None:
    bound = Bound("a.b.rate", kind, 2.0, None)
    (verdict,) = budget.judge([bound], "a.b", {"a.b.rate": 1.99}, budget.KINDS)
    assert not verdict.is_kept
    assert verdict.is_failure is is_failure


def test_figures_of_the_project_are_of_points_that_there_are() -> None:
    from bench.run import all_points  # noqa: PLC0415

    budget.check_points(budget.read_bounds(), {point.name for point in all_points()})
