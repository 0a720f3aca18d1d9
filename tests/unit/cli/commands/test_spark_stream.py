"""fastprod.cli.commands.spark_stream: what is told before Spark starts; the rest: tests/spark."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fastprod.cli.commands.spark_stream import spark_stream
from fastprod.spark.jobs.stream_job import stream_source
from unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nosuch",), "nosuch: no such folder, and neither rate nor kafka:TOPIC"),
        (("rate:x",), "after rate: comes the number of rows"),
        (("kafka:",), "after kafka: comes the topic"),
        (("s3a://b/c",), "a URL needs --format"),
        (("{folder}",), "a folder that is empty needs --format"),
        (("rate", "--trigger", "often"), "must be an interval such as '5 seconds'"),
        (("rate", "--sql", "select 1", "--select", "x"), "--sql is a whole query"),
        (("rate", "-X", "key.serializer=builtins:str"), "'key.serializer' is not supported"),
        (("rate", "--summary", "/nosuch/file"), "cannot write /nosuch/file"),
    ],
)
def test_what_is_wrong_takes_one_line_and_exit_code_2(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    given = [each.replace("{folder}", str(tmp_path)) for each in arguments]
    result = run("spark-stream", *given, "--topic", "one", "-b", "127.0.0.1:1")
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_cluster_that_does_not_answer_is_told_before_spark_starts(
    run: Run, free_port: int
) -> None:
    result = run("spark-stream", "rate", "--topic", "one", "-b", f"127.0.0.1:{free_port}")
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)


@pytest.mark.parametrize(
    ("text", "wanted_ms"),
    [
        *(("5 seconds", 5_000), ("1 second", 1_000), ("10s", 10_000), ("1.5 s", 1_500)),
        *(("500ms", 500), ("500 ms", 500), ("2 minutes", 120_000), ("1 minute", 60_000)),
        *(("0.5 hours", 1_800_000), ("1 hour", 3_600_000), ("0 seconds", 0)),
    ],
)
def test_an_interval_of_the_trigger_is_one_that_spark_understands(
    text: str, wanted_ms: int
) -> None:
    option = next(each for each in spark_stream.params if each.name == "trigger")
    found = option.type_cast_value(click.Context(spark_stream), text)
    assert found == {"processingTime": f"{wanted_ms} milliseconds"}


def test_sources_are_sparks(tmp_path: Path) -> None:
    rate = stream_source("rate:50", None, {"numPartitions": "2"}, None, "b:1")
    assert (rate.kind, rate.options) == ("rate", {"rowsPerSecond": "50", "numPartitions": "2"})
    topic = stream_source("kafka:t", None, {"startingOffsets": "earliest"}, None, "b:1")
    assert topic.options == {
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    folder = stream_source(str(tmp_path), "csv", {}, "value string", "b:1")
    assert (folder.kind, folder.path, folder.schema) == ("csv", str(tmp_path), "value string")
    assert folder.options["header"] == "true"
