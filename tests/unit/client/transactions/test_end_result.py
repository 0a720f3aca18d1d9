"""EndResult: who waits for a commit hears of it from the engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastprod.client.transactions.end_result import EndResult
from fastprod.errors import KafkaError

TOKEN = 3


class WaitingEngine:
    """Its answer, if it has one, comes as soon as somebody waits."""

    def __init__(self, answer: tuple[int, int] | None = None) -> None:
        self.answer = answer
        self.abandoned = False
        self.waits: list[tuple[int, float]] = []
        self.known: list[int] = []

    def await_end(
        self, token: int, timeout_s: float, on_answer: Callable[[int, int, int], None]
    ) -> None:
        self.waits.append((token, timeout_s))
        if self.answer is not None:
            on_answer(token, *self.answer)

    def end_known(self, token: int) -> None:
        self.known.append(token)


def test_an_answer_that_comes_meanwhile_is_told_to_who_waits() -> None:
    engine, told = WaitingEngine((7, 1)), list[tuple[int, int, int]]()
    result = EndResult("commit_transaction", engine, TOKEN, lambda *answer: told.append(answer))
    assert not result.wait(0.5)  # what it means is for who is told
    assert (engine.waits, told) == ([(TOKEN, 0.5)], [(TOKEN, 7, 1)])
    result.done()
    assert result.wait(0.5)
    assert len(engine.waits) == 1


@pytest.mark.parametrize("error", [None, KafkaError("no")])
def test_whoever_waits_is_woken_by_an_outcome(error: KafkaError | None) -> None:
    engine = WaitingEngine()
    result = EndResult("abort_transaction", engine, TOKEN, lambda *_answer: None)
    if error is None:
        result.done()
    else:
        result.fail(error)
    assert engine.known == [TOKEN]


def test_the_child_of_a_fork_does_not_wait_at_its_parents_engine() -> None:
    engine = WaitingEngine()
    result = EndResult("commit_transaction", engine, TOKEN, lambda *_answer: None)
    engine.abandoned = True
    assert not result.wait(0)
    assert engine.waits == []
