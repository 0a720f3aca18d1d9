"""ci/run_tests.py: every folder is in one of the runs, and each decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import checkout
import run_tests

# In place of pytest: that takes a second to start.
RUNNER = """
import sys
from pathlib import Path
for path in map(Path, sys.argv[1:]):
    for each in path.rglob("test_*.py"):
        print(each)
        names = {}
        exec(each.read_text(), names)
        names["test_it"]()
"""
PROGRAMS: dict[str, Any] = {"tests": ("-S", "-c", RUNNER)}
PASSES = "def test_it():\n    print('seen')\n"
FAILS = "def test_it():\n    assert not 'seen'\n"
HANGS = "import time\ndef test_it():\n    time.sleep(60)\n"


def tree(root: Path, interop: str = PASSES, unit: str = PASSES) -> Path:
    """A checkout with a test in each of some folders."""
    waiting = ("faults", "threads", "chaos", "broker_faults")
    texts = dict.fromkeys(("spark", "spark_jobs", *waiting, "unit/broker/x", "new"), PASSES)
    for name, text in {**texts, "interop": interop, "unit/a": unit}.items():
        folder = root / "tests" / name
        folder.mkdir(parents=True)
        (folder / "test_it.py").write_text(text)
    (root / "tests" / "vectors").mkdir()
    return root


def test_each_folder_with_tests_is_in_one_of_the_runs(tmp_path: Path) -> None:
    tests = tree(tmp_path) / "tests"
    (tests / "test_lone.py").write_text(PASSES)
    assert run_tests.parts(tests) == {
        "spark": [tests / "spark"],
        "spark_jobs": [tests / "spark_jobs"],
        "interop": [tests / "interop"],
        "chaos": [tests / "chaos"],
        "faults": [tests / "faults", tests / "threads"],
        "broker": [tests / "broker_faults", tests / "unit" / "broker"],
        "rest": [tests / "new", tests / "test_lone.py", tests / "unit" / "a"],
    }


def test_nothing_of_this_project_is_left_out() -> None:
    paths = [each for part in run_tests.parts(checkout.ROOT / "tests").values() for each in part]
    every = sorted((checkout.ROOT / "tests").rglob("test_*.py"))
    assert every == sorted(
        each for path in paths for each in ([path] if path.is_file() else path.rglob("test_*.py"))
    )


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    (tree(tmp_path) / "tests" / "spark" / "test_it.py").unlink()
    with pytest.raises(FileNotFoundError, match="spark has no tests"):
        run_tests.run(tmp_path, [], **PROGRAMS)


@pytest.mark.parametrize(
    ("interop", "unit", "code"),
    [(PASSES, PASSES, 0), (FAILS, PASSES, 1), (PASSES, FAILS, 1)],
)
def test_all_have_to_pass(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], interop: str, unit: str, code: int
) -> None:
    assert run_tests.run(tree(tmp_path, interop, unit), [], **PROGRAMS) == code
    shown = capfd.readouterr().out
    for folder in ("interop", "spark", "spark_jobs", "faults", "unit/broker/x", "unit/a", "new"):
        assert f"tests/{folder}/test_it.py" in shown
    codes = {"rest": int(unit == FAILS), "interop": int(interop == FAILS)}
    codes |= dict.fromkeys(("spark", "broker", "faults", "chaos", "spark_jobs"), 0)
    told = ", ".join(f"{name} {each}" for name, each in codes.items())
    assert f"exit codes: {told}\n" in shown


WAITS = """
import time
from pathlib import Path
def test_it():
    end = time.monotonic() + {wait_s}
    while not Path({path!r}).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
"""
BEGINS = """
from pathlib import Path
def test_it():
    Path({path!r}).touch()
"""


@pytest.mark.parametrize(("at_once", "wait_s", "code"), [(3, 20, 0), (2, 0.5, 1)])
def test_so_many_runs_are_there_at_the_same_time(
    tmp_path: Path, at_once: int, wait_s: float, code: int
) -> None:
    """Two wait for the third."""
    path = str(tmp_path / "third")
    root = tree(
        tmp_path,
        interop=WAITS.format(wait_s=wait_s, path=path),
        unit=WAITS.format(wait_s=wait_s, path=path),
    )
    (root / "tests" / "spark" / "test_it.py").write_text(BEGINS.format(path=path))
    assert run_tests.run(root, [], at_once=at_once, **PROGRAMS) == code


def test_a_run_that_hangs_is_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_tests.run(tree(tmp_path, HANGS), [], limit_s=1.0, **PROGRAMS) == 1
    assert "not done within 1 s" in capfd.readouterr().out
