"""fastprod.cli.progress: lines where there is no terminal, and a bar where there is one."""

from __future__ import annotations

import io
import sys

import pytest

from fastprod.cli import progress as progress_module
from fastprod.cli.progress import RecordProgress


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


def never() -> int:
    raise AssertionError("the count was asked for before it was due")


def test_without_a_terminal_a_line_comes_each_period(
    clock: Clock, capsys: pytest.CaptureFixture[str]
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
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with RecordProgress("delivered", None) as progress:
        clock.now_s += 1000
        progress.show(never)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_with_the_count(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    with RecordProgress("read back", 2000) as progress:
        clock.now_s += 1.0
        progress.show(lambda: 500)
    assert "read back" in terminal.getvalue()
    assert "500/2000" in terminal.getvalue()
