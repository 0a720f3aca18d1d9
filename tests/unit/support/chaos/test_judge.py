"""The judge of the chaos finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import pytest

from support.chaos.journal import Journal, Told
from support.chaos.judge import LEFT_OPEN, LeftOpen, Seen, judge


def journal() -> Journal:
    """Two acknowledged, one aborted, one that failed, and a transaction without a known end."""
    return Journal(
        "a",
        there=[Told(b"a 1 ", 0, 0), Told(b"a 4 ", 0, 5)],
        absent={b"a 2 "},
        perhaps={b"a 3 "},
        all_or_none=[[b"a 5 ", b"a 6 "]],
    )


@pytest.mark.parametrize(
    "seen",
    [
        {0: [(0, b"a 1 "), (5, b"a 4 ")]},
        {0: [(0, b"a 1 "), (4, b"a 3 "), (5, b"a 4 ")], 1: []},
        {0: [(0, b"a 1 "), (5, b"a 4 "), (6, b"a 5 "), (7, b"a 6 ")]},
    ],
)
def test_what_is_right_is_clean(seen: Seen) -> None:
    assert judge([journal()], seen) == []


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        ({0: [(0, b"a 1 ")]}, "is not there"),
        ({0: [(0, b"a 1 "), (6, b"a 4 ")]}, "is elsewhere"),
        ({0: [(0, b"a 1 "), (5, b"a 4 "), (6, b"a 4 ")]}, "is there 2 times"),
        ({0: [(0, b"a 1 "), (3, b"a 2 "), (5, b"a 4 ")]}, "was aborted"),
        ({0: [(0, b"a 1 "), (5, b"a 4 "), (6, b"a 6 ")]}, "a part of a transaction"),
        ({0: [(0, b"a 1 "), (5, b"a 4 "), (6, b"b 1 ")]}, "nobody committed it"),
        ({0: [(0, b"a 1 "), (5, b"a 4 "), (6, b"a 3 ")]}, "behind number 4"),
        ({0: [(0, b"a 1 "), (5, b"a 4 "), (5, b"a 5 "), (8, b"a 6 ")]}, "offset 5 behind 5"),
    ],
)
def test_what_is_wrong_is_found(seen: Seen, what: str) -> None:
    assert any(what in each for each in judge([journal()], seen))


def test_what_a_load_found_wrong_is_a_violation() -> None:
    found = journal()
    found.wrong("fatal")
    assert judge([found], {0: [(0, b"a 1 "), (5, b"a 4 ")]}) == ["a: fatal"]


def transactional_journal() -> Journal:
    """Committed, aborted, committed in two partitions, aborted by a hand-over, committed."""
    found = Journal("a")
    found.committed([Told(b"a 1 ", 0, 0)])
    found.aborted([b"a 2 ", b"a 3 "])
    found.committed([Told(b"a 4 ", 0, 5), Told(b"a 5 ", 0, 6), Told(b"a 6 ", 1, 1)])
    found.aborted([b"a 7 ", b"a 8 late"])
    found.committed([Told(b"a 9 ", 0, 11)])
    return found


FIRST, LAST = (0, b"a 1 "), (11, b"a 9 ")
SECOND = [(2, b"a 2 "), (3, b"a 3 ")]
THIRD = [(5, b"a 4 "), (6, b"a 5 ")]
FOURTH = [(8, b"a 7 "), (9, b"a 8 late")]
SIXTH = [(1, b"a 6 ")]
STORED = {
    **{(0, offset): value for offset, value in [FIRST, *SECOND, *THIRD, *FOURTH, LAST]},
    (1, 1): b"a 6 ",
}


def ends(zero: int = 0, one: int = 0) -> dict[str, LeftOpen]:
    return {"a": LeftOpen({0: zero, 1: one}, STORED), "b": LeftOpen({0: 9, 1: 9}, STORED)}


@pytest.mark.parametrize(
    ("seen", "zero", "one"),
    [
        ({0: [FIRST, *SECOND, *THIRD, LAST], 1: SIXTH}, 1, 0),
        ({0: [FIRST, *THIRD, *FOURTH, LAST], 1: SIXTH}, 1, 0),
        ({0: [FIRST, *SECOND, *THIRD, *FOURTH, LAST], 1: SIXTH}, 2, 0),
        ({0: [FIRST, LAST], 1: SIXTH}, 1, 0),
        ({0: [FIRST, *THIRD], 1: SIXTH}, 1, 0),
        ({0: [LAST], 1: SIXTH}, 2, 0),
        ({0: [FIRST, *THIRD, LAST]}, 0, 1),
        ({0: [FIRST, LAST]}, 1, 1),
    ],
)
def test_as_many_transactions_may_end_as_the_next_one_in_a_partition_as_were_left_open_there(
    seen: Seen, zero: int, one: int
) -> None:
    assert judge([transactional_journal()], seen) != []
    assert judge([transactional_journal()], seen, ends(zero - 1, 9)) != [] or zero == 0
    assert judge([transactional_journal()], seen, ends(9, one - 1)) != [] or one == 0
    found = transactional_journal()
    assert judge([found], seen, ends(zero, one)) == []
    assert found.counts == {LEFT_OPEN: zero + one}


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        ({0: [FIRST, *THIRD, (7, b"a 5 "), LAST], 1: SIXTH}, "2 times"),
        ({0: [FIRST, (5, b"a 4 "), (8, b"a 5 "), LAST], 1: SIXTH}, "elsewhere"),
        ({0: [FIRST, *THIRD, LAST, (12, b"a 10 ")], 1: SIXTH}, "nobody committed it"),
        ({0: [FIRST, *THIRD, (7, b"a 2 "), LAST], 1: SIXTH}, "behind number 5"),
        # A part of a partition's:
        ({0: [FIRST, (5, b"a 4 "), LAST], 1: SIXTH}, "is not there"),
        ({0: [FIRST, SECOND[1], *THIRD, LAST], 1: SIXTH}, "was aborted"),
        ({0: [FIRST, *THIRD, FOURTH[1], LAST], 1: SIXTH}, "was aborted"),
        # Not as the next one is:
        ({0: [FIRST, *SECOND, LAST], 1: SIXTH}, "was aborted"),
        ({0: [FIRST, *THIRD, *FOURTH], 1: SIXTH}, "was aborted"),
        ({0: [*SECOND, *THIRD, LAST], 1: SIXTH}, "is not there"),
    ],
)
def test_nothing_else_is_forgiven(seen: Seen, what: str) -> None:
    assert any(what in each for each in judge([transactional_journal()], seen, ends(9, 9)))


def test_what_the_log_does_not_have_is_lost() -> None:
    stored = {place: value for place, value in STORED.items() if value != b"a 6 "}
    found = judge(
        [transactional_journal()],
        {0: [FIRST, *THIRD, LAST]},
        {"a": LeftOpen({0: 9, 1: 9}, stored)},
    )
    assert any("is not there" in each for each in found)


def test_where_all_is_right_nothing_is_counted() -> None:
    found = transactional_journal()
    assert judge([found], {0: [FIRST, *THIRD, LAST], 1: SIXTH}, ends(9, 9)) == []
    assert found.counts == {}
