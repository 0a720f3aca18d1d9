"""fastprod.cli.demo.spark_demo: refusals; the rest: tests/spark_jobs/test_demo_process.py."""

from __future__ import annotations

import importlib.util

import pytest

from unit.cli.conftest import Run


@pytest.mark.parametrize("option", ["--record-size", "--compression"])
def test_an_option_without_a_meaning_here_is_refused(run: Run, option: str) -> None:
    result = run("demo", "--spark", option, "100" if option == "--record-size" else "lz4")
    assert result.exit_code == 2
    assert f"{option} says nothing with --spark" in result.stderr


def test_a_missing_spark_is_told_with_the_way_to_get_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run("demo", "--spark")
    assert result.exit_code == 2
    assert "pyspark is not installed here: python -m pip install 'fastprod[spark]'" in result.stderr
