"""fastprod.cli.output.progress_bar: whose turn it is, and whether there is a bar."""

from __future__ import annotations

import pytest
from rich.progress import TextColumn

from fastprod.cli.output.progress_bar import ProgressBar
from unit.cli.conftest import StandingClock, become_terminal

COLUMNS = (TextColumn("{task.fields[told]}"),)


def test_a_turn_comes_each_period_and_says_how_long_it_was(clock: StandingClock) -> None:
    with ProgressBar("sent", COLUMNS, None, 2.0) as progress:
        turns = []
        for step_s in (1.5, 1.0, 1.5, 4.0):
            clock.now_s += step_s
            turns.append(progress.take_turn())
        assert turns == [0.0, 2.5, 0.0, 5.5]
        assert progress.elapsed_s == 8.0


def test_a_terminal_gets_a_bar_whatever_the_period_of_lines(
    clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = become_terminal(monkeypatch)
    with ProgressBar("sent", COLUMNS, None, 0.0) as progress:
        clock.now_s += 0.2
        assert progress.take_turn() > 0.1
        assert progress.update(1, "one of three", 3)
    assert "one of three" in terminal.getvalue()


def test_lines_may_be_wanted_on_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = become_terminal(monkeypatch)
    with ProgressBar("sent", COLUMNS, None, 1.0, has_bar=False) as progress:
        assert not progress.update(1, "one of three", 3)
    assert terminal.getvalue() == ""
