"""Answers that come late, in pieces, cut short or not at all (B-G2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from fastprod.broker.faults.answers import AnswerPlan, Dribble, Held, PlannedAnswer
from fastprod.broker.network.request import Request, SizedBuffer
from support.broker.fault_requests import Outlet, framed

PARTS = (b"header", b"", b"body")
WHOLE = framed(b"headerbody")


Planned = Callable[[Held], AnswerPlan]


def planned(**words: Any) -> Planned:
    """A plan that waits wherever it is told to."""
    return partial(AnswerPlan, **words)


class Timer:
    """Holds back what has a delay until it is let go."""

    def __init__(self) -> None:
        self.held: list[tuple[float, Callable[[], None]]] = []
        self.is_released = False

    def hold(self, delay_ms: float, action: Callable[[], None]) -> None:
        if delay_ms:
            self.held.append((delay_ms, action))
        else:
            action()

    def let_go(self) -> float:
        delay_ms, action = self.held.pop(0)
        action()
        return delay_ms


def answer(
    outlet: Outlet,
    plan: Planned,
    timer: Timer,
    parts: Sequence[SizedBuffer] | None = PARTS,
    is_changed: bool = False,
) -> Request:
    request = outlet.request()
    PlannedAnswer(plan(timer), parts, is_changed).take(
        request, lambda: request.respond(parts if parts is None else (b"as it was",))
    )
    return request


def test_a_late_answer_is_the_usual_one() -> None:
    outlet, timer = Outlet(), Timer()
    answer(outlet, planned(delay_ms=30), timer)
    assert outlet.answers == 0
    assert timer.let_go() == 30
    assert outlet.written == framed(b"as it was")


def test_an_answer_that_was_changed_is_sent_as_it_is_now() -> None:
    outlet = Outlet()
    answer(outlet, planned(), Timer(), is_changed=True)
    assert outlet.written == WHOLE


def test_a_lost_answer_closes_the_connection() -> None:
    outlet = Outlet()
    answer(outlet, planned(is_lost=True), Timer())
    assert (outlet.is_closed, outlet.answers, outlet.written) == (True, 1, b"")


def test_where_there_is_no_answer_nothing_is_cut() -> None:
    """B-D1.4: acks=0."""
    outlet = Outlet()
    plan = planned(dribble=Dribble(1, 0), truncate_to_bytes=3)
    answer(outlet, plan, Timer(), parts=None)
    assert (outlet.answers, outlet.written, outlet.is_closed) == (1, b"", False)


@pytest.mark.parametrize("size_bytes", [0, 1, 4, 9, len(WHOLE), len(WHOLE) + 1])
def test_a_truncated_answer_ends_and_the_connection_with_it(size_bytes: int) -> None:
    outlet = Outlet()
    request = answer(outlet, planned(truncate_to_bytes=size_bytes), Timer())
    assert outlet.written == WHOLE[:size_bytes]
    assert (outlet.is_closed, outlet.answers, request.answered) == (True, 1, True)


@pytest.mark.parametrize("chunk_bytes", [1, 3, len(WHOLE) - 1, len(WHOLE), 1000])
def test_an_answer_in_pieces_is_whole_in_the_end(chunk_bytes: int) -> None:
    outlet, timer = Outlet(), Timer()
    answer(outlet, planned(dribble=Dribble(chunk_bytes, 5)), timer)
    while timer.held:
        assert outlet.answers == 0
        assert timer.let_go() == 5
    assert outlet.written == WHOLE
    assert {len(each) for each in outlet.pieces[:-1]} <= {chunk_bytes}
    assert len(outlet.pieces) == -(-len(WHOLE) // chunk_bytes)
    assert (outlet.answers, outlet.is_closed) == (1, False)


def test_pieces_can_follow_one_another_without_a_pause() -> None:
    outlet = Outlet()
    answer(outlet, planned(dribble=Dribble(4, 0)), Timer())
    assert outlet.pieces == [WHOLE[:4], WHOLE[4:8], WHOLE[8:12], WHOLE[12:]]


def test_a_truncated_answer_can_come_in_pieces_too() -> None:
    outlet, timer = Outlet(), Timer()
    answer(outlet, planned(dribble=Dribble(4, 5), truncate_to_bytes=6, delay_ms=7), timer)
    assert [timer.let_go(), timer.let_go()] == [7, 5]
    assert outlet.pieces == [WHOLE[:4], WHOLE[4:6]]
    assert (outlet.answers, outlet.is_closed) == (1, True)


def test_nothing_is_written_to_a_connection_that_has_ended() -> None:
    """B-A3.4: the request is counted all the same."""
    outlet, timer = Outlet(), Timer()
    answer(outlet, planned(dribble=Dribble(4, 5)), timer)
    outlet.connection.is_open = False
    timer.let_go()
    assert not timer.held
    assert outlet.pieces == [WHOLE[:4]]
    assert outlet.answers == 1


IN_PIECES = [
    planned(truncate_to_bytes=0),
    planned(truncate_to_bytes=7),
    planned(dribble=Dribble(3, 1)),
    planned(truncate_to_bytes=7, dribble=Dribble(3, 0)),
]


@pytest.mark.parametrize("plan", IN_PIECES, ids=repr)
def test_whoever_waits_for_the_end_of_an_answer_is_told_once(plan: Planned) -> None:
    """A Fetch counts what it has copied until then."""
    outlet, timer = Outlet(), Timer()
    request = outlet.request()
    told: list[int] = []
    request.on_sent = lambda: told.append(outlet.answers)
    action = PlannedAnswer(plan(timer), PARTS, False)
    action.take(request, lambda: request.respond(PARTS))
    while timer.held:
        assert told == []
        timer.let_go()
    assert told == [1]


def test_a_plan_without_anything_sends_as_usual() -> None:
    timer = Timer()
    assert planned(refused={("t", 0): 6})(timer).sends_as_usual
    for plan in (
        planned(delay_ms=1),
        planned(dribble=Dribble(1, 0)),
        planned(truncate_to_bytes=0),
        planned(is_lost=True),
    ):
        assert not plan(timer).sends_as_usual
