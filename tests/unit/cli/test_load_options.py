"""fastprod.cli.load_options: columns, reader options, summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fastprod.cli.load_options import (
    column_mapping,
    column_options,
    need,
    reader_pairs,
    summary_option,
    write_summary,
)
from fastprod.spark.column_mapping import ColumnMapping


def test_columns_are_what_the_options_say() -> None:
    @click.command()
    @column_options
    def command(**given: Any) -> None:
        found.append(column_mapping(given))

    found: list[ColumnMapping] = []
    words = ["--value", "v", "--timestamp-column", "t", "-H", "h=1", "--header-column", "g=c"]
    command(words, standalone_mode=False)
    command(["--partition-column", "p", "--key", "k"], standalone_mode=False)
    assert found == [
        ColumnMapping("v", timestamp="t", headers=(("h", b"1"),), header_columns=(("g", "c"),)),
        ColumnMapping(key="k", partition="p"),
    ]
    assert column_mapping({"value_format": "json"}) == ColumnMapping(value_format="json")


def test_a_reader_option_keeps_its_white_space() -> None:
    assert reader_pairs(["sep= ", "quote="]) == {"sep": " ", "quote": ""}
    with pytest.raises(click.UsageError, match="--option"):
        reader_pairs(["sep"])


def test_what_is_installed_is_not_asked_for() -> None:
    need("pyarrow")


def test_a_summary_goes_where_it_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(None, {"rows": 1})
    assert capsys.readouterr().out == ""
    write_summary("-", {"rows": 1})
    assert json.loads(capsys.readouterr().out) == {"rows": 1}
    write_summary(str(tmp_path / "s"), {"rows": 2})
    assert json.loads((tmp_path / "s").read_text()) == {"rows": 2}
    with pytest.raises(click.UsageError, match="cannot write"):
        write_summary(str(tmp_path), {})


def test_a_summary_that_cannot_be_written_is_told_before_anything_is_done(tmp_path: Path) -> None:
    command = click.Command("x", params=[], callback=lambda summary: click.echo(f"did {summary}"))
    command = summary_option(command)
    for target in (str(tmp_path), str(tmp_path / "nosuch" / "file")):
        result = CliRunner().invoke(command, ["--summary", target])
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"cannot write {target}" in result.stderr
    for target in ("-", str(tmp_path / "new")):
        assert CliRunner().invoke(command, ["--summary", target]).stdout == f"did {target}\n"
    assert list(tmp_path.iterdir()) == []
