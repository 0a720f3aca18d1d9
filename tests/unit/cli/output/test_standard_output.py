"""fastprod.cli.output.standard_output: what cannot be written is a failure of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastprod.cli.output.failure import CommandFailure
from fastprod.cli.output.standard_output import NotPrinted, print_out

FULL = Path("/dev/full")


def test_a_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_out("two\nlines")
    assert capsys.readouterr().out == "two\nlines\n"


def test_the_failure_says_what_was_to_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        with pytest.raises(NotPrinted) as raised:
            print_out("3 rows")
        assert raised.value.message == "cannot write to standard output (Broken pipe): 3 rows"
        # The null device has taken the pipe's place.
        print_out("more")
    assert isinstance(raised.value, CommandFailure)
    assert raised.value.exit_code == 2


def test_a_command_ends_with_one_line_on_stderr() -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fastprod", "doctor"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    told = "fastprod doctor: cannot write to standard output (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, told)
