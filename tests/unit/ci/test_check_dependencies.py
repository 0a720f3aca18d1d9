"""ci/check_dependencies.py: imports that nobody declared, and packages that nobody imports."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_dependencies
import checkout

PYPROJECT = """
[project]
dependencies = ["numpy>=1.26", "lz4"]
[project.optional-dependencies]
cli = ["click>=8.1"]
spark = ["pyspark>=4.1"]
registry = ["confluent-kafka[schemaregistry]>=2.11"]
test = ["pytest"]
"""
RULES = """
[[part]]
modules = ["fastprod.*"]
extras = []
[[part]]
modules = ["fastprod.cli.*"]
extras = ["cli"]
[[part]]
modules = ["fastprod.cli.commands.spark_*"]
extras = ["cli", "spark"]
[packages]
py4j = "pyspark"
[loaded]
lz4 = '"lz4.frame"'
confluent-kafka = 'load("confluent_kafka")'
"""
ORDERLY = {
    "fastprod/__init__.py": "import os.path\nfrom fastprod.errors import Broken\n",
    "fastprod/arrays.py": "def f():\n    import numpy.random\n",
    "fastprod/_core/codec.pyx": 'from libc.stdint cimport uint8_t\nNAMES = ("lz4.frame",)\n',
    "fastprod/registry.py": 'library = load("confluent_kafka")\n',
    "fastprod/types.py": "if TYPE_CHECKING:\n    from attrs import field\n",
    "fastprod/types.pyi": "from typing_extensions import Buffer\n",
    "fastprod/cli/commands/perf.py": "import click\n",
    "fastprod/cli/commands/spark_load.py": (
        "from py4j.protocol import Py4JError\nfrom click import echo\n"
    ),
}


def made(root: Path, **changed: str) -> Path:
    """An orderly checkout, with some files written anew ("fastprod/cli/commands/perf.py")."""
    files = {"pyproject.toml": PYPROJECT, "ci/dependencies.toml": RULES, **ORDERLY, **changed}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_an_orderly_checkout_has_no_faults(tmp_path: Path) -> None:
    assert check_dependencies.check(made(tmp_path)) == []


@pytest.mark.slow
def test_this_one_has_none() -> None:
    assert check_dependencies.check(checkout.ROOT) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("fastprod/a.py", "def f():\n    import attrs\n", "a.py:2: imports attrs, which is not"),
        ("fastprod/a.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import attrs\n", "a.py:4: "),
        ("fastprod/_core/a.pyx", "\nfrom attrs import x\n", "_core/a.pyx:2: imports attrs, "),
        ("fastprod/a.py", "import click\n", "a.py:1: imports click, which is not among the "),
        ("fastprod/cli/a.py", "from pyspark import x\n", "dependencies, nor in fastprod[cli]"),
        ("pyspark_a.py", "import click\n", "pyspark_a.py:1: imports click, "),
        ("fastprod/arrays.py", "", "numpy is declared, and nothing in fastprod uses it"),
        ("fastprod/_core/codec.pyx", "", "lz4 is declared, and nothing in fastprod uses it"),
        (
            "fastprod/cli/commands/spark_load.py",
            "",
            "pyspark is declared, and nothing in fastprod uses it",
        ),
        ("fastprod/registry.py", "", "confluent-kafka is declared, and nothing in fastprod "),
        (
            "ci/dependencies.toml",
            RULES + "kio = 'import kio'\n",
            "ci/dependencies.toml: kio is loaded, and not declared in pyproject.toml",
        ),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, name: str, text: str, fault: str) -> None:
    (found,) = check_dependencies.check(made(tmp_path, **{name: text}))
    assert fault in found


def test_a_requirement_without_a_name_is_an_error(tmp_path: Path) -> None:
    root = made(tmp_path, **{"pyproject.toml": PYPROJECT.replace('"lz4"', '"@lz4"')})
    with pytest.raises(ValueError, match="names no package"):
        check_dependencies.check(root)
