"""fastprod.__main__: `python -m fastprod` is the command line."""

from __future__ import annotations

import subprocess
import sys

from fastprod.version import VERSION

TIMEOUT_S = 60


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastprod", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_python_m_fastprod_is_the_command_line() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fastprod {VERSION}\n", "")


def test_its_exit_code_is_the_commands() -> None:
    done = run("produce")
    assert done.returncode == 2
    assert done.stderr == (
        "fastprod produce: Missing argument 'TOPIC'. (fastprod produce --help tells more)\n"
    )
