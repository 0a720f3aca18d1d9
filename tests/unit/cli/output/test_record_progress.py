"""fastprod.cli.output.record_progress: a line now and then, or a bar with the count."""

from __future__ import annotations

import pytest

from fastprod.cli.output.record_progress import RecordProgress
from unit.cli.conftest import StandingClock, become_terminal


def never() -> int:
    raise AssertionError("the count was asked for before it was due")


def test_without_a_terminal_a_line_comes_each_period(
    clock: StandingClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with RecordProgress("delivered", 5000, line_period_s=2.0) as progress:
        clock.now_s += 1.9
        progress.show(never)
        clock.now_s += 0.1
        progress.show(lambda: 1000)
        clock.now_s += 2.0
        progress.show(lambda: 4000)
    assert capsys.readouterr().err.splitlines() == [
        "1,000 of 5,000 records delivered, 500/s now",
        "4,000 of 5,000 records delivered, 1,500/s now",
    ]


def test_without_a_terminal_and_a_period_nothing_comes(
    clock: StandingClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with RecordProgress("delivered", None) as progress:
        clock.now_s += 1000
        progress.show(never)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_with_the_count(
    clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = become_terminal(monkeypatch)
    with RecordProgress("read back", 2000) as progress:
        clock.now_s += 1.0
        progress.show(lambda: 500)
    assert "read back" in terminal.getvalue()
    assert "500/2000" in terminal.getvalue()
    assert "500/s" in terminal.getvalue()
