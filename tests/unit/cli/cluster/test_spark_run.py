"""fastprod.cli.cluster.spark_run: how work in a session ends; sessions themselves: tests/spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from pyspark.errors import AnalysisException

import fastprod.spark.session
from fastprod.cli.cluster.spark_run import run_in_spark
from fastprod.cli.options.spark import SparkOptions
from fastprod.cli.output.load_ending import LoadEnding
from fastprod.errors import ConfigError
from fastprod.load.input_files import InputError
from fastprod.spark.session import SessionFailed

REFUSED = AnalysisException("no such column")


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the sessions were made with; none of them is one."""
    made: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def job_session(name: str, **given: Any) -> Iterator[str]:
        made.append({"name": name, **given})
        yield name

    monkeypatch.setattr(fastprod.spark.session, "job_session", job_session)
    return made


def run(error: BaseException, *, sent: bool = False) -> LoadEnding:
    def fail(spark: object) -> None:
        raise error

    return run_in_spark("app", SparkOptions(), fail, lambda: sent)


def test_work_gets_a_session_with_the_settings_and_a_log(sessions: list[dict[str, Any]]) -> None:
    worked: list[object] = []
    options = SparkOptions(master="local[1]", settings={"a": "b"})
    assert run_in_spark("app", options, worked.append) == LoadEnding("complete")
    assert run_in_spark("app", SparkOptions(is_verbose=True), worked.append) == LoadEnding()
    assert worked == ["app", "app"]
    logged, verbose = sessions
    assert (logged["name"], logged["master"], logged["settings"]) == ("app", "local[1]", {"a": "b"})
    assert isinstance(logged["log_path"], Path)
    assert verbose["log_path"] is None


@pytest.mark.parametrize("error", [InputError("x"), ConfigError("x"), SessionFailed("x"), REFUSED])
def test_what_is_refused_is_a_usage_error_until_records_are_sent(error: Exception) -> None:
    with pytest.raises(click.UsageError, match=r"^x$|no such column"):
        run(error)
    ending = run(error, sent=True)
    assert ending.outcome == "failed"
    assert ending.failure in ("x", "no such column")


def test_ctrl_c_and_a_java_that_is_gone_end_the_work() -> None:
    assert run(KeyboardInterrupt()) == LoadEnding("interrupted")
    ending = run(ConnectionRefusedError())
    assert ending.outcome == "failed"
    assert ending.failure.startswith("the Java process that Spark runs in has ended")
