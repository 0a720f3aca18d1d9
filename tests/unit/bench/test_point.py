"""Points with less to do."""

from __future__ import annotations

import pytest

from bench.contests.contest import P99, Contest
from bench.fresh_process import Contender
from bench.point import Point
from bench.workload import Workload


@pytest.mark.parametrize(("count", "fewer"), [(1, 1), (1_000, 1_000), (10_000, 2_000)])
def test_a_shorter_point_has_whole_thousands_of_records_and_no_more_than_it_had(
    count: int, fewer: int
) -> None:
    point = Point("p", "t", "mock", [Contender("c", "p", Workload("send", count))], lambda _: {}, 9)
    shorter = point.shortened(3, 4)
    assert (shorter.rounds, shorter.contenders[0].workload.record_count) == (3, fewer)


def test_a_shorter_contest_has_shorter_finals() -> None:
    contest = Contest("c", P99, rounds=7)
    point = Point("p", "t", "mock", [], lambda _: {}, 3, contest)
    shorter = point.shortened(2, 4).contest
    assert shorter is not None
    assert shorter.rounds == 2
