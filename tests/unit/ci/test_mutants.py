"""ci/mutants.py: a fault that no test sees is found, and everything is as it was afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants

ROOT = Path(__file__).parents[3]
SOURCE = "def double(n):\n    return 2 * n\n"
TESTS = """
import time

from fastprod import double

def test_double_of_one():
    assert double(1) == 2

def test_double_of_two():
    assert double(2) == 4

def test_it_ends():
    while double(1) != 2:
        time.sleep(0.01)
"""


def toml(name: str, new: str, test: str, old: str = "2 * n", note: str = "wrong") -> str:
    return (
        f'[[mutant]]\nname = "{name}"\nfile = "fastprod/__init__.py"\nold = "{old}"\n'
        f'new = "{new}"\ntests = ["tests/test_it.py::{test}"]\nnote = "{note}"\n'
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of one module in Python."""
    for name, text in [("fastprod/__init__.py", SOURCE), ("tests/test_it.py", TESTS)]:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    return tmp_path


def faults(root: Path, *rows: str) -> list[str]:
    path = root / mutants.MUTANTS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows))
    return list(mutants.faults(root))


def test_faults_are_caught_or_survive_and_the_source_stays(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not faults(
        root,
        toml("thrice", "3 * n", "test_double_of_one"),
        toml("square", "2 ** n", "test_double_of_two"),
        toml("crash", "__import__('os').abort()", "test_double_of_one"),
    )
    assert mutants.run(root, mutants.load(root)) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-5:-1][0].startswith("fault ")
    table = {line.split()[0]: line.split()[1] for line in said[-4:-1]}
    assert table == {"thrice": "caught", "square": "survived", "crash": "caught"}
    assert "test_double_of_one" in said[-4]
    assert "SIGABRT" in said[-2]
    assert said[-1] == "3 faults, 2 caught"
    assert (root / "fastprod" / "__init__.py").read_text() == SOURCE


def test_a_hang_is_caught_and_said(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "LIMIT_S", 5.0)
    assert not faults(root, toml("hang", "0", "test_it_ends"))
    assert mutants.run(root, mutants.load(root)) == 0
    assert "caught, hangs: not done after 5 s" in capsys.readouterr().out


def test_what_was_tried_is_not_tried_again_with_the_same_sources(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accept.SOURCE_FOLDERS", ("fastprod", "tests"))
    assert not faults(root, toml("thrice", "3 * n", "test_double_of_one"))
    chosen = mutants.load(root)
    assert mutants.run(root, chosen) == 0
    assert "pytest" in (root / mutants.LOG).read_text()
    assert mutants.run(root, chosen) == 0
    assert (root / mutants.LOG).read_text() == ""
    (root / "fastprod" / "__init__.py").write_text(SOURCE + "\n")
    assert mutants.run(root, chosen) == 0
    assert "pytest" in (root / mutants.LOG).read_text()


def test_tests_that_fail_without_a_fault_prove_nothing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "fastprod" / "__init__.py").write_text(SOURCE.replace("2 * n", "2 * n + 1"))
    assert not faults(root, toml("thrice", "3 * n", "test_double_of_one"))
    assert mutants.run(root, mutants.load(root)) == 1
    assert "do not pass: tests/test_it.py::test_double_of_one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (0, "1 passed", "survived"),
        (1, "FAILED tests/a.py::b - assert 0", "caught"),
        (1, "ERROR tests/a.py::b - leak", "caught"),
        (1, "no summary", "broken"),
        (2, "FAILED tests/a.py::b - assert 0", "broken"),
        (5, "no tests ran", "broken"),
        (-11, "", "caught"),
        (None, "", "caught"),
    ],
)
def test_only_a_failed_test_a_crash_or_a_hang_catches(
    code: int | None, said: str, expected: str
) -> None:
    assert mutants.judge(code, said, 60.0)[0] == expected


def test_faults_that_do_not_fit_the_source_are_found(root: Path) -> None:
    assert faults(
        root,
        toml("twice", "3 * n", "test_double_of_one"),
        toml("twice", "3 * n", "test_double_of_one"),
        toml("gone", "3 * n", "test_double_of_one", old="4 * n"),
        toml("often", "m", "test_double_of_one", old="n"),
        toml("nothing", "2 * n", "test_double_of_one"),
        toml("unproved", "3 * n", "test_none"),
        '[[mutant]]\nname = "half"\n',
    ) == [
        "twice: is there twice",
        "twice: is there twice",
        "gone: `old` is 0 times in fastprod/__init__.py",
        "often: `old` is 3 times in fastprod/__init__.py",
        "nothing: changes nothing, or has no note, or names no test",
        "unproved: there is no test tests/test_it.py::test_none",
        "half: has ['name'], wants ['file', 'name', 'new', 'note', 'old', 'tests']",
    ]


def test_the_projects_own_faults_fit_its_source() -> None:
    assert list(mutants.faults(ROOT)) == []
    assert len(mutants.load(ROOT)) >= 30
