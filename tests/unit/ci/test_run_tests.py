"""ci/run_tests.py: every folder is in one of the runs, and each decides."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkout
import run_tests

PASSES = "def test_it():\n    print('seen')\n"
FAILS = "def test_it():\n    assert not 'seen'\n"
HANGS = "import time\ndef test_it():\n    time.sleep(60)\n"


def tree(root: Path, interop: str = PASSES, unit: str = PASSES) -> Path:
    """A checkout with a test in each of seven folders."""
    (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    texts = dict.fromkeys(("spark", "spark_jobs", "faults", "threads", "new"), PASSES)
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
        "faults": [tests / "faults", tests / "threads"],
        "rest": [tests / "new", tests / "test_lone.py", tests / "unit"],
    }


def test_nothing_of_this_project_is_left_out() -> None:
    folders = [each for part in run_tests.parts(checkout.ROOT / "tests").values() for each in part]
    every = sorted((checkout.ROOT / "tests").rglob("test_*.py"))
    assert every == sorted(each for folder in folders for each in folder.rglob("test_*.py"))


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    (tree(tmp_path) / "tests" / "spark" / "test_it.py").unlink()
    with pytest.raises(FileNotFoundError, match="spark has no tests"):
        run_tests.run(tmp_path, [])


@pytest.mark.parametrize(
    ("interop", "unit", "code"),
    [(PASSES, PASSES, 0), (FAILS, PASSES, 1), (PASSES, FAILS, 1)],
)
def test_all_have_to_pass(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], interop: str, unit: str, code: int
) -> None:
    assert run_tests.run(tree(tmp_path, interop, unit), ["-p", "no:cacheprovider"]) == code
    shown = capfd.readouterr().out
    for folder in ("interop", "spark", "spark_jobs", "faults", "threads", "unit/a", "new"):
        assert f"tests/{folder}/test_it.py" in shown
    codes = f"interop {int(interop == FAILS)}, faults 0, rest {int(unit == FAILS)}"
    assert f"exit codes: spark 0, spark_jobs 0, {codes}\n" in shown


def test_a_run_that_hangs_is_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_tests.run(tree(tmp_path, HANGS), [], limit_s=5.0) == 1
    assert "not done within 5 s" in capfd.readouterr().out
