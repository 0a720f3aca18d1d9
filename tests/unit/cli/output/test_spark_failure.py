"""fastprod.cli.output.spark_failure: Java's stack traces as one line."""

from __future__ import annotations

import click
import pytest

from fastprod.cli.output.failure import RecordsFailed
from fastprod.cli.output.spark_failure import root_cause, spark_failure

WORKER = """An error occurred while calling o94.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed
org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "data_source.py", line 85, in write
    return task_writer.run(self._plan)
           ^^^^^^^^^^^^^^^
fastprod.load.row_error.RowError: too large [row 5 (from 0)]

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
Caused by: java.lang.RuntimeException: other
"""


class Py4JNetworkError(Exception):
    """As py4j's, by its name."""


class AnalysisException(Exception):
    """As PySpark's, by its name."""


def test_what_a_worker_raised_is_told_without_where() -> None:
    failure = spark_failure(RuntimeError(WORKER))
    assert isinstance(failure, RecordsFailed)
    assert failure.message == "too large [row 5 (from 0)]"


def test_what_java_raised_is_told_by_its_first_line() -> None:
    assert root_cause(
        "An error occurred while calling o1.x.\n: java.io.IOException: full\n\tat x"
    ) == ("java.io.IOException: full")


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "x"), Py4JNetworkError("x")])
def test_a_java_that_is_gone_is_told_as_that(error: Exception) -> None:
    failure = spark_failure(error)
    assert isinstance(failure, RecordsFailed)
    assert failure.message.startswith("the Java process that Spark runs in has ended: ")


def test_a_file_that_cannot_be_read_is_told_with_the_cause() -> None:
    text = ": x.SparkException: [FAILED_READ_FILE.NO_HINT] reading file:///a.csv. \n\tat x\n"
    text += "Caused by: x.Middle: no\n\tat x\nCaused by: x.Malformed: record 2\n\tat x\n"
    assert root_cause(text).endswith("file:///a.csv.: x.Malformed: record 2")


class OfPySpark(Exception):
    def __init__(self, text: str, cause: OfPySpark | None = None) -> None:
        super().__init__(text)
        self._cause = cause


def test_a_stream_tells_why_a_file_cannot_be_read() -> None:
    malformed = OfPySpark("x.Malformed: record 2\nmore")
    reading = OfPySpark("x.SparkException: [FAILED_READ_FILE.NO_HINT] file:///a.csv", malformed)
    told = spark_failure(OfPySpark(str(reading), reading)).message
    assert told.endswith("file:///a.csv: x.Malformed: record 2")


def test_a_query_that_spark_refuses_is_a_wrong_command() -> None:
    error = AnalysisException("[UNRESOLVED] `x` cannot be resolved; line 1 pos 7;\n'Project ['x]\n")
    failure = spark_failure(error)
    assert isinstance(failure, click.UsageError)
    assert failure.message == "[UNRESOLVED] `x` cannot be resolved; line 1 pos 7"


def test_a_source_that_is_missing_comes_with_its_package() -> None:
    failure = spark_failure(AnalysisException("Failed to find data source: avro. Deploy it."))
    assert "--packages org.apache.spark:spark-avro_2.13" in failure.message
    connector = spark_failure(AnalysisException("Failed to find data source: kafka. Deploy it."))
    assert "spark-sql-kafka-0-10_2.13" in connector.message


def test_a_long_text_is_cut() -> None:
    assert len(spark_failure(RuntimeError("x" * 10_000)).message) < 2_000
