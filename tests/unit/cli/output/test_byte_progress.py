"""fastprod.cli.output.byte_progress: how far a load is."""

from __future__ import annotations

import json

import pytest

from fastprod.cli.output.byte_progress import ByteProgress, seconds_left
from unit.cli.conftest import StandingClock, become_terminal


def show(clock: StandingClock, kind: str, total_bytes: int = 4_000_000) -> None:
    with ByteProgress(kind) as progress:
        clock.now_s += 5.0
        progress.show(
            done_bytes=1_000_000, total_bytes=total_bytes, rows=5_000, sent_bytes=10, tasks=(1, 4)
        )


def test_a_log_gets_lines(clock: StandingClock, capsys: pytest.CaptureFixture[str]) -> None:
    show(clock, "auto")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("25% of 4.0 MB, task 1 of 4, 5,000 rows, ")
    assert told.err.endswith(", 15 s left\n")


def test_what_is_not_known_is_left_out(
    clock: StandingClock, capsys: pytest.CaptureFixture[str]
) -> None:
    show(clock, "auto", 0)
    assert capsys.readouterr().err.startswith("task 1 of 4, 5,000 rows, ")


def test_json_has_a_line_each_time(
    clock: StandingClock, capsys: pytest.CaptureFixture[str]
) -> None:
    show(clock, "json")
    told = json.loads(capsys.readouterr().err)
    assert (told["input_bytes"], told["input_bytes_total"]) == (1_000_000, 4_000_000)
    assert (told["rows"], told["tasks"], told["tasks_total"]) == (5_000, 1, 4)


def test_none_is_silent(clock: StandingClock, capsys: pytest.CaptureFixture[str]) -> None:
    show(clock, "none")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_unless_json_is_wanted(
    clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = become_terminal(monkeypatch)
    show(clock, "json")
    assert json.loads(terminal.getvalue())["eta_s"] == 15.0
    show(clock, "auto")
    assert "1.0/4.0 MB" in terminal.getvalue()


def test_the_rest_takes_as_long_as_what_is_done() -> None:
    assert seconds_left(25, 100, 10.0) == 30.0
    assert seconds_left(100, 100, 10.0) == 0.0
    assert seconds_left(0, 100, 10.0) is None
    assert seconds_left(5, 0, 10.0) is None
