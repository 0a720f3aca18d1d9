"""bench.cliffs.table: medians and ratios of two sides."""

from __future__ import annotations

import math

import pytest

from bench.cliffs import table
from bench.cliffs.table import Row

THIS = [{"cpu_s": 3.0, "fsyncs": 4.0}, {"cpu_s": 1.0, "fsyncs": 4.0}, {"cpu_s": 9.0, "fsyncs": 4.0}]
OTHER = [{"fsyncs": 16.0, "cpu_s": 30.0}, {"fsyncs": 8.0, "cpu_s": 10.0}]


def test_rows_have_each_sides_median_in_the_order_of_the_first_run() -> None:
    assert table.rows("stop", [THIS, OTHER]) == [
        Row("stop.cpu_s", 3.0, 20.0),
        Row("stop.fsyncs", 4.0, 12.0),
    ]


def test_without_another_side_there_is_no_ratio() -> None:
    first, _ = table.rows("stop", [THIS])
    assert first == Row("stop.cpu_s", 3.0, None)
    assert first.ratio is None
    assert [cell.strip() for cell in table.line(first).split("|")] == ["stop.cpu_s", "3", "", ""]


@pytest.mark.parametrize(
    ("this", "other", "ratio"),
    [(3.0, 20.0, 0.15), (20.0, 10.0, 2.0), (0.0, 5.0, 0.0), (0.0, 0.0, 1.0), (2.0, 0.0, math.inf)],
)
def test_the_ratio_is_this_by_the_other(this: float, other: float, ratio: float) -> None:
    assert Row("stop.fsyncs", this, other).ratio == pytest.approx(ratio)


def test_a_line_has_both_and_the_ratio() -> None:
    cells = [cell.strip() for cell in table.line(Row("stop.fsyncs", 2646.0, 13230.5)).split("|")]
    assert cells == ["stop.fsyncs", "2,646", "13,230", "0.200"]


@pytest.mark.parametrize("wrong", [{"cpu_s": 1.0}, {"cpu_s": 1.0, "fsyncs": 1.0, "wall_s": 1.0}])
def test_runs_with_other_figures_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"stop: figures .* beside \['cpu_s', 'fsyncs'\]"):
        table.rows("stop", [THIS, [*OTHER, wrong]])


def test_points_have_names_of_their_own() -> None:
    from bench.cliffs.run import all_points  # noqa: PLC0415

    names = [point.name for point in all_points()]
    assert len(names) == len(set(names)) > 0
