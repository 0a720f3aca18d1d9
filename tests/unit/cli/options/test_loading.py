"""fastprod.cli.options.loading: columns, reader options, summaries."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.options.loading import LoadingOptions, loading_options, need, reader_pairs
from fastprod.load.column_mapping import ColumnMapping


@click.command()
@loading_options("loader", ("csv", "text"), "pyarrow")
@click.option("--value-format", default="raw")
@click.option("--own")
def command(loading: LoadingOptions, **given: Any) -> tuple[LoadingOptions, dict[str, Any]]:
    return loading, given


def parsed(*words: str) -> LoadingOptions:
    loading, given = command(["--topic", "t", *words], standalone_mode=False)
    assert given == {"own": None}
    assert isinstance(loading, LoadingOptions)
    return loading


def test_columns_are_what_the_options_say() -> None:
    words = ["--value", "v", "--timestamp-column", "t", "-H", "h=1", "--header-column", "g=c"]
    assert parsed(*words, "--value-format", "json").mapping == ColumnMapping(
        "v",
        timestamp="t",
        headers=(("h", b"1"),),
        header_columns=(("g", "c"),),
        value_format="json",
    )
    words = ["--partition-column", "p", "--key", "k"]
    assert parsed(*words).mapping == ColumnMapping(key="k", partition="p")


def test_what_is_left_out_has_its_default() -> None:
    expected = LoadingOptions(
        "t", ClientSettings("loader"), None, ColumnMapping(), {}, 0, "auto", None, False
    )
    assert parsed() == expected


def test_the_smallest_rate_is_a_limit() -> None:
    assert parsed("--max-mb-per-second", "1e-9").max_bytes_per_second == 1


def test_files_rate_and_cluster_are_what_the_options_say() -> None:
    loading = parsed(
        *("--format", "csv", "-O", "sep=;", "--max-mb-per-second", "1.5", "--progress", "json"),
        *("--summary", "-", "-q", "-b", "h:1", "-X", "acks=1", "--compression", "lz4"),
    )
    assert (loading.kind, loading.reader_options) == ("csv", {"sep": ";"})
    assert (loading.max_bytes_per_second, loading.progress_kind) == (1_500_000, "json")
    assert (loading.summary, loading.quiet) == ("-", True)
    assert loading.client.by_name == {
        "bootstrap.servers": "h:1",
        "client.id": "loader",
        "acks": "1",
        "compression.type": "lz4",
    }


def test_a_reader_option_keeps_its_white_space() -> None:
    assert reader_pairs(["sep= ", "quote="]) == {"sep": " ", "quote": ""}
    with pytest.raises(click.UsageError, match="--option"):
        reader_pairs(["sep"])


def test_what_is_installed_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    need("pyarrow")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(click.UsageError, match="pyarrow is not installed here"):
        parsed()


def test_a_summary_that_cannot_be_written_is_told_before_anything_is_done(tmp_path: Path) -> None:
    for target in (str(tmp_path), str(tmp_path / "nosuch" / "file")):
        result = CliRunner().invoke(command, ["--topic", "t", "--summary", target])
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"cannot write {target}" in result.stderr
    for target in ("-", str(tmp_path / "new")):
        assert parsed("--summary", target).summary == target
    assert list(tmp_path.iterdir()) == []
