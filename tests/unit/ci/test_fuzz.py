"""ci/fuzz.py: what was done is not done again, and one input that fails is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fuzz

KINDS = {"a": "native", "b": "python"}


class Rounds:
    """Stands in for the processes of targets."""

    def __init__(self, failing: str = "") -> None:
        self.made: list[tuple[str, str, int]] = []
        self._failing = failing

    def __call__(
        self, work: fuzz.Work, target: str, kind: str, inputs: int, variables: Any
    ) -> int | None:
        self.made.append((target, kind, inputs))
        return None if target == self._failing else inputs


@pytest.fixture
def work(tmp_path: Path) -> fuzz.Work:
    return fuzz.Work(tmp_path / "fuzz")


def test_each_target_has_its_share_in_rounds(
    work: fuzz.Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds()
    monkeypatch.setattr(fuzz, "run_round", rounds)
    assert fuzz.fuzz(work, KINDS, 2 * fuzz.ROUND_INPUTS + 20, {}) == []
    assert rounds.made == [
        ("a", "native", fuzz.ROUND_INPUTS),
        ("b", "python", fuzz.ROUND_INPUTS),
        ("a", "native", 10),
        ("b", "python", 10),
    ]


def test_who_was_interrupted_goes_on_where_it_was(
    work: fuzz.Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds()
    monkeypatch.setattr(fuzz, "run_round", rounds)
    work.add("a", 60)
    again = fuzz.Work(work.tree)
    assert fuzz.fuzz(again, KINDS, 200, {}) == []
    assert rounds.made == [("a", "native", 40), ("b", "python", 100)]
    assert fuzz.fuzz(again, KINDS, 200, {}) == []
    assert len(rounds.made) == 2


def test_a_target_that_fails_is_told_and_the_others_go_on(
    work: fuzz.Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(failing="a")
    monkeypatch.setattr(fuzz, "run_round", rounds)
    assert fuzz.fuzz(work, KINDS, 4 * fuzz.ROUND_INPUTS, {}) == ["a"]
    assert [target for target, _, _ in rounds.made] == ["a", "b", "b"]
    assert work.counts() == {"b": 2 * fuzz.ROUND_INPUTS}
