"""ci/check_mentions.py finds what is spoken of and not there.

What is not there has a ^ in it here, so that this file names nothing that is missing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import check_mentions

FILES = {
    "fastprod/__init__.py": "from fastprod.producer import Producer\n",
    "fastprod/producer.py": "class Producer: ...\n",
    "fastprod/engine/sender.pyx": "cdef int poll(): return 0\n",
    "tests/unit/test_producer.py": "",
}


def checkout_of(root: Path, name: str, text: str) -> Path:
    for path, written in {**FILES, name: text.replace("^", "")}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(written)
    return root


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "README.md",
            "See `fastprod/producer.py`, engine/sender.pyx, `sender.pyx` and tests/unit.",
        ),
        ("DESIGN.md", "fastprod.producer has `fastprod.Producer`, fastprod.producer.Producer."),
        ("docs/index.md", "fastprod/engine/ and fastprod.engine.sender.poll, fastprod/*.py"),
        ("a.toml", 'modules = ["fastprod.engine.*", "fastprod.prod*"]'),
        ("CHANGELOG.md", "## Unreleased\n\n## 0.1\n`fastprod.gone^er`\n"),
        ("notes.md", "an old_^file.py is of no concern here"),
        ("fastprod/other.py", 'PATH = "made/by_^a_test.py"\n'),
    ],
)
def test_what_is_there_may_be_named(tmp_path: Path, name: str, text: str) -> None:
    assert check_mentions.check(checkout_of(tmp_path, name, text)) == []


@pytest.mark.parametrize(
    ("name", "text", "missing"),
    [
        ("README.md", "x\n`fastprod/mess^ages.py`", "fastprod/mess^ages.py"),
        ("DESIGN.md", "x\nwhat io_^thread.pxd says", "io_^thread.pxd"),
        ("docs/a.md", "x\nwrong^/sender.pyx", "wrong^/sender.pyx"),
        ("CHANGELOG.md", "## Unreleased\nfastprod.Con^sumer", "fastprod.Con^sumer"),
        ("a.toml", "\nfile = 'fastprod/engine/dra^in.pyx'", "fastprod/engine/dra^in.pyx"),
        ("Makefile", "all:\n\tpytest tests/spa^rk_job", "tests/spa^rk_job"),
        ("fastprod/a.py", "\nx = 1  # see fastprod.mess^ages", "fastprod.mess^ages"),
        ("fastprod/b.py", 'X = 1\ndef f():\n    """See go^ne.py."""', "go^ne.py"),
        ("fastprod/c.pyx", "\n# as engine/dra^in.pxd has it", "engine/dra^in.pxd"),
    ],
)
def test_what_is_not_there_is_found(tmp_path: Path, name: str, text: str, missing: str) -> None:
    (found,) = check_mentions.check(checkout_of(tmp_path, name, text))
    line = 3 if name == "fastprod/b.py" else 2
    assert found == f"{name}:{line}: there is no {missing.replace('^', '')}"


def test_an_exception_that_excuses_nothing_is_found(tmp_path: Path) -> None:
    root = checkout_of(tmp_path, "README.md", "`fastprod.opt^ion`")
    (root / "ci").mkdir()
    exceptions = root / "ci" / "exceptions.toml"
    exceptions.write_text("[mentions]\n" + '"fastprod.opt^ion" = "a setting"\n'.replace("^", ""))
    assert check_mentions.check(root) == []
    (root / "README.md").write_text("")
    assert len(check_mentions.check(root)) == 1
