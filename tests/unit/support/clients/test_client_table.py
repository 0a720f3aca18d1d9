"""docs/clients.md is written by a run in which each of its tests has passed, and by no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.clients import client_table

TESTS = Path(client_table.__file__).parents[2]
PLUGIN = "support.clients.client_table"
FILE = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_alike(number, client_row):
    client_row("aiokafka", "two of a kind")

def test_other(client_row):
    client_row("kafka-topics.sh", "a topic")

def test_without(): ...
"""


@pytest.fixture(autouse=True)
def no_plugins_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a second each."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(folder: Path, text: str, *args: str) -> tuple[int, str, str]:
    """Exit code, what pytest says, and the table's rows."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = client: has a row\n")
    table = folder / "clients.md"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-m", "client", *args),
            *("--clients-table", str(table), "test_it.py"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'ci'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    written = table.read_text().partition("|---|---|---|---|\n")[2] if table.exists() else ""
    return done.returncode, done.stdout, written


def test_a_run_that_passed_writes_its_rows(tmp_path: Path) -> None:
    """Cases that say the same are one; who has no row is not run."""
    code, said, written = run(tmp_path, FILE)
    aiokafka, kafka = client_table.version("aiokafka"), client_table.version("kafka-topics.sh")
    assert "3 passed, 1 deselected" in said
    assert written.splitlines() == [
        f"| aiokafka | {aiokafka} | two of a kind | `test_it.py::test_alike` |",
        f"| kafka-topics.sh | {kafka} | a topic | `test_it.py::test_other` |",
    ]
    assert code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"a topic")', '"a topic")\n    assert False'),
        ('"a topic")', '"a topic")\n    pytest.skip()'),
        ("def test_other(client_row)", "def test_other(client_row, fails_behind)"),
    ],
)
def test_one_that_did_not_pass_is_the_end_of_it(tmp_path: Path, old: str, new: str) -> None:
    """Failed, skipped, or failed when it cleaned up."""
    fixture = "\n@pytest.fixture\ndef fails_behind():\n    yield\n    assert False\n"
    code, said, written = run(tmp_path, FILE.replace(old, new) + fixture)
    assert "clients.md is not written" in said
    assert written == ""
    assert code == 1


def test_one_that_was_left_out_is_the_end_of_it(tmp_path: Path) -> None:
    code, said, written = run(tmp_path, FILE, "-k", "1 or other")
    assert "clients.md is not written" in said
    assert written == ""
    assert code == 1
