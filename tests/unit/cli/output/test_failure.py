"""fastprod.cli.output.failure: one line, one exit code."""

from __future__ import annotations

import click
import pytest

from fastprod.cli.output.failure import (
    CommandFailure,
    Interrupted,
    RecordsFailed,
    Unreachable,
    one_line,
)


def test_a_message_of_several_lines_becomes_one() -> None:
    assert one_line(" a\n  b\t\tc \n") == "a b c"
    assert RecordsFailed("a\nb").format_message() == "a b"


@pytest.mark.parametrize(
    ("kind", "code"), [(RecordsFailed, 1), (Unreachable, 3), (Interrupted, 130)]
)
def test_each_failure_has_its_exit_code(kind: type[CommandFailure], code: int) -> None:
    assert kind("x").exit_code == code


def test_a_failure_knows_the_command_that_it_was_made_in() -> None:
    assert RecordsFailed("x").command_path == "fastprod"
    with click.Context(click.Command("perf"), info_name="fastprod perf"):
        assert RecordsFailed("x").command_path == "fastprod perf"
