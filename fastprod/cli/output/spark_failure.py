"""Turns what Spark raises into one line with an exit code."""

from __future__ import annotations

import re
from typing import Final

import click

from fastprod.cli.output.failure import RecordsFailed, one_line

_RAISED: Final = re.compile(r"^(?:[\w.]*\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_CAUSE: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_UNTOLD: Final = "[FAILED_READ_FILE"  # it says nothing but the file's name
_ADVICE: Final = {
    "Failed to find data source: avro": (
        "; give --packages org.apache.spark:spark-avro_2.13:<version of Spark>"
    ),
    "Failed to find data source: kafka": (
        "; give --packages org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>"
    ),
}
_LONGEST: Final = 1_500


def spark_failure(error: Exception) -> click.ClickException:
    """Return the failure for what Spark raised.

    Args:
        error: of pyspark.errors (what Spark's driver found wrong) or py4j (a task failed), or a
            ConnectionError (Java is gone).

    Returns:
        A usage error if Spark refused the query before any task, else that records failed.
    """
    text = str(error)
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return RecordsFailed(
            "the Java process that Spark runs in has ended: it was killed, or had too little "
            "memory (--conf spark.driver.memory=2g gives it more)"
        )
    refused = type(error).__name__ in ("AnalysisException", "ParseException")
    if refused and "PYTHON_DATA_SOURCE_ERROR" not in text:
        return click.UsageError(_shortened(_without_plan(text)))
    return RecordsFailed(_shortened(root_cause(text + _causes(error, text))))


def _causes(error: BaseException, text: str) -> str:
    """What PySpark's exceptions have behind them, where their text has no stack traces of Java."""
    found = ""
    cause = getattr(error, "_cause", None)
    while cause is not None and "Caused by: " not in text:
        found += f"\nCaused by: {str(cause).strip()}"
        cause = getattr(cause, "_cause", None)
    return found


def root_cause(text: str) -> str:
    """What a Python worker raised, found in Java's stack traces; else the first useful line."""
    if "Traceback (most recent call last)" in text:
        python = text[text.rindex("Traceback (most recent call last)") :]
        raised = [match for match in _RAISED.finditer(python) if ".java:" not in match[0]]
        if raised:
            return raised[0][2]
    causes = _CAUSE.findall(text)
    for line in text.splitlines():
        told = line.strip().removeprefix(": ")
        if told and not told.startswith("An error occurred while calling"):
            return f"{told}: {causes[-1]}" if causes and _UNTOLD in told else told
    return text


def _without_plan(text: str) -> str:
    told = text.partition("\n\n")[0].partition("JVM stacktrace")[0]
    told = re.split(r";\s*\n", told)[0]
    for name, advice in _ADVICE.items():
        if name in told:
            told += advice
    return told


def _shortened(text: str) -> str:
    told = one_line(text)
    return told if len(told) <= _LONGEST else told[:_LONGEST] + " ..."
