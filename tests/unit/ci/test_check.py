"""ci/check runs the checks in order and stops at the first that fails."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CHECK = Path(__file__).parents[3] / "ci" / "check"


def run_check(folder: Path, failing: str) -> subprocess.CompletedProcess[str]:
    """Run ci/check with tools that do nothing, but fail when an argument has `failing` in it."""
    for tool in ("python", "ruff", "cython-lint", "mypy"):
        path = folder / tool
        path.write_text(f'#!/bin/sh\ncase "{tool} $*" in *"{failing}"*) exit 3;; esac\n')
        path.chmod(0o755)
    return subprocess.run(
        [str(CHECK)],
        env={**os.environ, "PYTHON": str(folder / "python")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_checks_run_when_none_fails(tmp_path: Path) -> None:
    done = run_check(tmp_path, failing="no such argument")
    assert done.returncode == 0, done.stderr
    for step in (
        "format",
        "ruff check",
        "ascii",
        "paths",
        "sizes",
        "layers",
        "mirror",
        "clauses",
        "cython-lint",
        "nogil",
    ):
        assert step in done.stdout
    assert done.stdout.endswith("ci/check: all passed\n")


def test_it_stops_at_the_first_failure_and_has_printed_what_ran(tmp_path: Path) -> None:
    done = run_check(tmp_path, failing="check_sizes")
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1].endswith("ci/check_sizes.py")
    assert "layers" not in done.stdout


def test_types_that_do_not_fit_are_a_failure_too(tmp_path: Path) -> None:
    done = run_check(tmp_path, failing="mypy")
    assert done.returncode == 1
    assert "all passed" not in done.stdout


def test_without_an_environment_it_says_what_to_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(CHECK)],
        env={**os.environ, "PYTHON": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "run make dev" in done.stderr
