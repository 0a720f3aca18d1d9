"""The judge of the chaos finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import pytest

from support.chaos.journal import Journal, Told
from support.chaos.judge import Seen, judge


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
    """Committed, aborted, committed, aborted."""
    found = Journal("a")
    found.committed([Told(b"a 1 ", 0, 0)])
    found.aborted([b"a 2 ", b"a 3 "])
    found.committed([Told(b"a 4 ", 0, 5), Told(b"a 5 ", 0, 6)])
    found.aborted([b"a 6 "])
    return found


ALL_RIGHT = [(0, b"a 1 "), (5, b"a 4 "), (6, b"a 5 ")]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([(0, b"a 1 "), (2, b"a 2 "), (3, b"a 3 "), (5, b"a 4 "), (6, b"a 5 ")], 1),
        ([(0, b"a 1 "), (3, b"a 3 "), (5, b"a 4 "), (6, b"a 5 ")], 1),
        ([(0, b"a 1 ")], 1),
        ([(0, b"a 1 "), (2, b"a 2 "), (3, b"a 3 ")], 2),
    ],
)
def test_as_many_transactions_may_end_otherwise_as_the_brokers_left_open(
    rows: list[tuple[int, bytes]], wrong: int
) -> None:
    assert judge([transactional_journal()], {0: rows}) != []
    assert judge([transactional_journal()], {0: rows}, {"a": wrong - 1, "b": 9}) != []
    found = transactional_journal()
    assert judge([found], {0: rows}, {"a": wrong}) == []
    assert found.counts == {"transactions that Kafka left open": wrong}


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([*ALL_RIGHT, (7, b"a 5 ")], "2 times"),
        ([(0, b"a 1 "), (5, b"a 4 "), (9, b"a 5 ")], "elsewhere"),
        ([*ALL_RIGHT, (9, b"a 7 ")], "nobody committed it"),
        ([*ALL_RIGHT, (7, b"a 2 ")], "behind number 5"),
    ],
)
def test_nothing_else_is_forgiven(rows: list[tuple[int, bytes]], what: str) -> None:
    found = judge([transactional_journal()], {0: rows}, {"a": 9})
    assert any(what in each for each in found)


def test_where_all_is_right_nothing_is_counted() -> None:
    found = transactional_journal()
    assert judge([found], {0: ALL_RIGHT}, {"a": 9}) == []
    assert found.counts == {}
