"""ci/check_clients.py finds rows without a test, and tests without a row."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_clients

TEST = "tests/interop/test_it.py"
HEAD = "# Clients\n\n| client | version | did | by |\n|---|---|---|---|\n"
ROW = f"| aiokafka | 1.2 | a loop, twice | `{TEST}::test_a_loop` |\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one test that has a row, and one that has none."""
    for path in (TEST, check_clients.TABLE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / TEST).write_text(
        "def test_a_loop(broker, client_row): ...\ndef test_other(): 'client_row'\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (ROW, ""),
        ("", f"{TEST}::test_a_loop has no row: make it again"),
        (ROW + ROW.replace("a_loop`", "other`"), f"{TEST}::test_other has no row to give: make it"),
        (ROW + ROW.replace("a_loop`", "gone`"), f"{TEST}::test_gone has no row to give: make it"),
        (ROW + "| aiokafka | 1.2 | all of it | by hand |\n", "no row as a test writes it: | aio"),
    ],
)
def test_the_table_has_what_the_tests_give_it(root: Path, rows: str, fault: str) -> None:
    (root / check_clients.TABLE).write_text(HEAD + rows)
    found = check_clients.check(root)
    assert len(found) == bool(fault)
    assert all(each.startswith(f"{check_clients.TABLE}: {fault}") for each in found)


def test_a_table_that_is_missing_is_a_fault(root: Path) -> None:
    assert check_clients.check(root) == ["docs/clients.md is missing"]
