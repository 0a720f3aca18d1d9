"""fastprod.cli.output.load_ending: the summary, the count, and the exit code of a load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.options.loading import LoadingOptions
from fastprod.cli.output import load_ending
from fastprod.cli.output.failure import Interrupted, RecordsFailed
from fastprod.cli.output.load_ending import LoadEnding, conclude
from fastprod.cli.output.standard_output import NotPrinted
from fastprod.load.column_mapping import ColumnMapping


def end(
    ending: LoadEnding | None = None,
    summary: str | None = None,
    quiet: bool = False,
    **more: Any,
) -> None:
    loading = LoadingOptions(
        "t", ClientSettings("d"), None, ColumnMapping(), {}, 0, "none", summary, quiet
    )
    known, delivered = "2 of 3 rows", "3 rows delivered"
    conclude(loading, ending or LoadEnding(), {"rows": 2}, known=known, delivered=delivered, **more)


def test_a_summary_goes_where_it_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end()
    assert capsys.readouterr().out == "3 rows delivered\n"
    end(quiet=True)
    assert capsys.readouterr().out == ""
    end(summary="-")
    expected = {"outcome": "complete", "topic": "t", "rows": 2, "error": None}
    assert json.loads(capsys.readouterr().out) == expected
    end(summary=str(tmp_path / "s"))
    assert json.loads((tmp_path / "s").read_text()) == expected
    with pytest.raises(click.UsageError, match="2 of 3 rows, but --summary: cannot write"):
        end(summary=str(tmp_path))


def test_a_load_that_did_not_complete_says_what_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = LoadEnding("failed", "no leader")
    with pytest.raises(RecordsFailed, match=r"^2 of 3 rows, then: no leader; go on$"):
        end(failed, advice="; go on")
    with pytest.raises(RecordsFailed, match=r"^2 of 3 rows; the first: no leader; and --summary: "):
        end(failed, summary=str(tmp_path), before_failure="; the first: ")
    with pytest.raises(Interrupted, match=r"^interrupted: 2 of 3 rows; go on$"):
        end(LoadEnding("interrupted"), summary=str(tmp_path / "s"), advice="; go on")
    assert json.loads((tmp_path / "s").read_text())["outcome"] == "interrupted"
    assert capsys.readouterr().out == ""


def test_a_summary_that_standard_output_does_not_take_is_told_with_the_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(text: str) -> None:
        raise NotPrinted(f"cannot write to standard output (Broken pipe): {text}")

    monkeypatch.setattr(load_ending, "print_out", refuse)
    with pytest.raises(RecordsFailed, match=r"no leader; and --summary: cannot write .*\{"):
        end(LoadEnding("failed", "no leader"), summary="-")
    with pytest.raises(click.UsageError, match=r"2 of 3 rows, but --summary: cannot write"):
        end(summary="-")
    with pytest.raises(NotPrinted, match="3 rows delivered"):
        end()
