"""fastprod.cli.commands.spark_load: what is told before Spark starts; the rest: tests/spark."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from unit.cli.conftest import Run


@pytest.mark.parametrize("command", ["spark-load", "spark-stream"])
def test_without_pyspark_the_line_says_how_to_get_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run(command, "a.csv", "--topic", "one")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"fastprod {command}: pyspark is not installed here: python -m pip install "
        f"'fastprod[spark]'"
    )
    assert result.stderr.count("\n") == 1


def test_help_needs_neither_pyspark_nor_pyarrow() -> None:
    code = (
        "import sys, fastprod.cli.command as c\n"
        "for name in c.COMMANDS: c.fastprod.get_command(None, name)\n"
        "sys.exit(any(m.split('.')[0] in ('pyspark', 'pyarrow') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nosuch.csv",), "nosuch.csv: no such file or directory"),
        (("{file}", "--sql", "select 1", "--where", "x"), "--sql is a whole query"),
        (("{file}", "--format", "orc", "--engine", "direct"), "orc is not read without Spark"),
        (("{file}", "--guarantee", "exactly_once"), "at_least_once"),
        (("{file}", "-X", "lingr.ms=5"), "did you mean linger.ms?"),
        (("{file}", "-X", "key.serializer=builtins:str"), "'key.serializer' is not supported"),
        (("{file}", "--summary", "/nosuch/file"), "cannot write /nosuch/file"),
        (("{file}", "s3a://b/c.csv"), "some paths are URLs and some are not"),
    ],
)
def test_what_is_wrong_takes_one_line_and_exit_code_2(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("value\nx\n")
    given = [each.replace("{file}", str(file)) for each in arguments]
    result = run("spark-load", *given, "--topic", "one", "-b", "127.0.0.1:1")
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_cluster_that_does_not_answer_is_told_before_spark_starts(
    run: Run, tmp_path: Path, free_port: int
) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    servers = f"127.0.0.1:{free_port}"
    result = run("spark-load", str(tmp_path / "a.txt"), "--topic", "one", "-b", servers)
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
