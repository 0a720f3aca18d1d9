"""fastprod.cli.commands.load: files into a topic without Spark."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from fastprod.load.file_loader import FileLoader
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer
from unit.cli.conftest import Run


@pytest.fixture
def single(new_peer: PeerFactory) -> Peer:
    """A peer with topic "one" of one partition."""
    return new_peer(topics={"one": 1})


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A Parquet file with the columns id, name and x."""
    path = tmp_path / "a.parquet"
    columns = {"id": [1, 2, 3], "name": ["a", None, "c"], "x": [0.5, 1.5, 2.5]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_columns_become_keys_values_and_headers(run: Run, single: Peer, table: str) -> None:
    result = run(
        *("load", table, "--topic", "one", "-b", single.bootstrap_servers, "--value", "name"),
        *("--key", "id", "-H", "All=x=y", "--header-column", "Each=id", "--compression", "gzip"),
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("3 rows delivered to one in ")
    records = single.log("one", 0)
    assert [(record.key, record.value) for record in records] == [
        (b"1", b"a"),
        (b"2", None),
        (b"3", b"c"),
    ]
    assert list(records[2].headers) == [("All", b"x=y"), ("Each", b"3")]


def test_the_summary_is_json_and_alone_on_standard_output(
    run: Run, single: Peer, table: str, tmp_path: Path
) -> None:
    arguments = ("load", table, "--topic", "one", "-b", single.bootstrap_servers, "--value", "name")
    result = run(*arguments, "--summary", "-")
    told = json.loads(result.stdout)
    assert (told["outcome"], told["rows"], told["bytes"], told["format"]) == (
        "complete",
        3,
        2,
        "parquet",
    )
    assert run(*arguments, "--summary", str(tmp_path / "summary")).stdout.startswith("3 rows")
    assert json.loads((tmp_path / "summary").read_text())["rows"] == 3


def test_a_summary_that_cannot_be_written_at_the_end_hides_nothing(
    run: Run, single: Peer, table: str
) -> None:
    arguments = ("load", table, "--topic", "one", "-b", single.bootstrap_servers, "--value", "name")
    result = run(*arguments, "--summary", "/dev/full")
    assert result.exit_code == 2
    assert "3 rows delivered" in result.stderr
    assert "--summary: cannot write /dev/full: No space left on device" in result.stderr
    single.on(PRODUCE).error(29).always()
    result = run(*arguments, "--summary", "/dev/full")
    assert result.exit_code == 1
    assert "0 rows delivered, 3 failed; the first error: " in result.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in result.stderr
    assert "--summary: cannot write /dev/full: No space left on device" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "which column is the value? There are id, name, x"),
        (("--value", "nosuch"), "there is no column 'nosuch'; there are id, name, x"),
        (("--value", "x"), "of type double, which is not read without Spark"),
        (("--value", "name", "-O", "mode=x"), "fastprod spark-load reads it"),
        (("--value", "name", "-X", "lingr.ms=5"), "did you mean linger.ms?"),
        (("--value", "name", "--summary", "/nosuch/file"), "cannot write /nosuch/file"),
    ],
)
def test_what_is_wrong_takes_one_line_and_exit_code_2(
    run: Run, single: Peer, table: str, arguments: tuple[str, ...], told: str
) -> None:
    servers = single.bootstrap_servers
    result = run("load", table, "--topic", "one", "-b", servers, *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert single.log("one", 0) == []


def test_a_missing_path_is_told_before_any_connection(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "nosuch.csv")
    result = run("load", path, "--topic", "one", "-b", "127.0.0.1:1")
    assert (result.exit_code, f"{path}: no such file" in result.stderr) == (2, True)


def test_a_cluster_that_does_not_answer_is_exit_code_3(
    run: Run, table: str, free_port: int
) -> None:
    servers = f"127.0.0.1:{free_port}"
    result = run("load", table, "--topic", "one", "--value", "name", "-b", servers)
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)


def test_rows_that_are_refused_are_exit_code_1(run: Run, single: Peer, table: str) -> None:
    single.on(PRODUCE).error(29).always()
    servers = single.bootstrap_servers
    result = run("load", table, "--topic", "one", "--value", "name", "-b", servers)
    assert result.exit_code == 1
    assert "0 rows delivered, 3 failed; the first error: " in result.stderr
    assert "row 0 (from 0): " in result.stderr
    assert result.stderr.count("\n") == 1


def test_ctrl_c_ends_it_and_tells_what_was_delivered(
    run: Run, single: Peer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = FileLoader.finish
    calls = []

    def interrupted(loader: FileLoader) -> None:
        calls.append(loader)
        if len(calls) == 1:
            raise KeyboardInterrupt
        finish(loader)

    monkeypatch.setattr(FileLoader, "finish", interrupted)
    servers = single.bootstrap_servers
    result = run("load", table, "--topic", "one", "--value", "name", "-b", servers)
    assert result.exit_code == 130
    assert "interrupted: 3 rows delivered, 0 failed" in result.stderr


def test_without_pyarrow_the_line_says_how_to_get_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run("load", "a.csv", "--topic", "one")
    assert result.exit_code == 2
    assert (
        "pyarrow is not installed here: python -m pip install 'fastprod[columns]'" in result.stderr
    )
    assert result.stderr.count("\n") == 1
