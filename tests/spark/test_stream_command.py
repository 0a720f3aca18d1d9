"""`fastprod spark-stream`: a rate, a folder and a topic into a topic."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from fastprod.broker.broker import Broker
from fastprod.cli.command import fastprod
from fastprod.producer import KafkaProducer
from support.records.readers import ReadRecord, end_offsets, read_with_confluent

PATIENCE_S = 400.0

Stream = Callable[..., Result]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One for all: workers keep their producers, and those of a broker that is gone look for it."""
    with Broker(topics=["in"]) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    """A new topic of one partition."""
    name = f"t-{uuid.uuid4().hex}"
    broker.create_topic(name, 1)
    return name


@pytest.fixture
def stream(spark: SparkSession, broker: Broker, topic: str) -> Stream:
    """`stream(source, *options)` into the topic, in the session of this folder."""

    def invoke(*arguments: str) -> Result:
        servers = ("--topic", topic, "-b", broker.bootstrap_servers, "--progress", "none")
        result = CliRunner().invoke(fastprod, ["spark-stream", *arguments, *servers])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def records(broker: Broker, topic: str) -> list[ReadRecord]:
    return read_with_confluent(broker.bootstrap_servers, topic)[0]


def test_a_topic_goes_through_sql_into_another(stream: Stream, broker: Broker, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("in", b"a", b"k").result(PATIENCE_S)
    query = ("--sql", "select key, concat(value, '!') value from input")
    start = ("-O", "startingOffsets=earliest", "--trigger", "available-now")
    result = stream("kafka:in", *query, *start, "--summary", "-")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["outcome"], told["rows"], told["batch_id"]) == ("complete", 1, 0)
    assert [(each.key, each.value) for each in records(broker, topic)] == [(b"k", b"a!")]


def test_a_folder_goes_on_where_it_ended(
    stream: Stream, broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.jsonl").write_text('{"k": "a", "n": 1}\n')
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "available-now")
    arguments = (str(folder), "--key", "k", "--value-format", "json", *checkpoint)
    assert stream(*arguments).stdout == f"1 rows in 1 micro-batches to {topic}\n"
    (folder / "2.jsonl").write_text('{"k": "b", "n": 2}\n')
    assert stream(*arguments).stdout == f"1 rows in 1 micro-batches to {topic}\n"
    assert [(each.key, each.value) for each in records(broker, topic)] == [
        (b"a", b'{"k":"a","n":1}'),
        (b"b", b'{"k":"b","n":2}'),
    ]


def test_a_new_file_with_an_old_time_is_read(
    stream: Stream, broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "available-now")
    for name, when_s in (("1.txt", 2_000_000_000), ("2.txt", 1_000_000_000)):
        (folder / name).write_text(f"{name}\n")
        os.utime(folder / name, (when_s, when_s))
        assert stream(str(folder), *checkpoint).exit_code == 0
    assert [each.value for each in records(broker, topic)] == [b"1.txt", b"2.txt"]


@pytest.mark.parametrize(
    ("text", "query", "told"),
    [
        ('{"value": "x"}{"value": "y"}\n', (), "1 lines have 2 objects"),
        ('{"value": "x"}{"value": "y"}\n', ("--where", "value = 'z'"), "1 lines have 2 objects"),
        ('{"value": "x", "": 1}\n', ("--value-format", "json"), "unexpected field"),
    ],
)
def test_a_file_of_which_spark_would_lose_something_ends_the_stream(
    stream: Stream,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    text: str,
    query: tuple[str, ...],
    told: str,
) -> None:
    folder = tmp_path / "in %"
    folder.mkdir()
    (folder / "a b.json").write_text(text)
    result = stream(str(folder), "--trigger", "available-now", *query)
    assert result.exit_code == 1
    assert f"{folder}/a b.json: " in result.stderr
    assert told in result.stderr
    assert records(broker, topic) == []


def test_a_file_that_is_gone_before_its_micro_batch_is_told(
    stream: Stream, broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "available-now")
    for name in ("1.txt", "2.txt"):
        (folder / name).write_text(f"{name}\n")
        assert stream(str(folder), *checkpoint).exit_code == 0
    # As if the second run had ended before its commit.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint/commits" / name).unlink()
    (folder / "2.txt").unlink()
    result = stream(str(folder), *checkpoint)
    assert result.exit_code == 2
    assert f"{folder}/2.txt was gone before Spark had read it" in result.stderr
    assert len(records(broker, topic)) == 2


def test_a_file_that_is_written_while_it_is_read_is_told(stream: Stream, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    has_ended = threading.Event()

    def write() -> None:
        with (folder / "a.txt").open("w") as file:
            while not has_ended.wait(0.02):
                file.write("x\n")
                file.flush()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        result = stream(str(folder), "--format", "text", "--run-for", str(PATIENCE_S))
    finally:
        has_ended.set()
        thread.join()
    assert result.exit_code in (1, 2), result.stderr
    assert f"{folder}/a.txt ha" in result.stderr
    assert "moved into the folder" in result.stderr


def test_a_folder_that_spark_passes_over_is_told_when_it_comes(
    stream: Stream, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("x\n")

    def add() -> None:
        # Not as soon as the row is in the topic: until the commit it is not known to be delivered.
        deadline_s = time.monotonic() + PATIENCE_S
        while not (tmp_path / "checkpoint/commits/0").exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        (folder / "more").mkdir()
        (folder / "more/b.txt").write_text("y\n")

    thread = threading.Thread(target=add)
    thread.start()
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
    result = stream(str(folder), *checkpoint, "--run-for", str(PATIENCE_S))
    thread.join()
    assert result.exit_code == 1
    assert "1 rows in 1 micro-batches known to be delivered, then: " in result.stderr
    assert f"{folder}/more/b.txt would not be read" in result.stderr


def test_ctrl_c_stops_a_rate_and_tells_what_was_written(
    stream: Stream, broker: Broker, topic: str
) -> None:
    def press_ctrl_c() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not end_offsets(broker.bootstrap_servers, topic)[0]:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press_ctrl_c)
    thread.start()
    options = ("--select", "string(value) value", "--trigger", "0.5 seconds", "--summary", "-")
    result = stream("rate:100", *options)
    thread.join()
    assert result.exit_code == 130, result.stderr
    assert result.stderr.startswith("fastprod spark-stream: interrupted: ")
    written = [int(each.value or b"") for each in records(broker, topic)]
    # Of the micro-batch that was interrupted, some rows are written and some are not.
    assert len(set(written)) == len(written) > 0
    assert set(range(json.loads(result.stdout)["rows"])) <= set(written)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("rate", "--select", "nosuch"), "`nosuch` cannot be resolved"),
        (("rate", "--value", "nosuch"), "there are timestamp, value"),
        (
            ("rate", "--select", "interval '1' day i", "--value-format", "json"),
            "column 'i' is of type interval day, which --value-format json does not take",
        ),
        (
            ("rate", "--sql", "select string(count(*)) value from input"),
            "STREAMING_OUTPUT_MODE",
        ),
    ],
)
def test_what_is_wrong_takes_one_line_and_exit_code_2(
    stream: Stream, arguments: tuple[str, ...], told: str
) -> None:
    result = stream(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_damaged_row_of_json_is_told_with_its_file_and_line(
    stream: Stream, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"value": "x"}\n')
    (tmp_path / "b.json").write_text('{"value": "y"}\n{"value": \n')
    result = stream(str(tmp_path), "--trigger", "available-now")
    assert result.exit_code == 2
    assert f"{tmp_path}/b.json: line 2 is not one JSON object" in result.stderr


def test_a_row_that_is_refused_ends_the_stream_with_exit_code_1(
    stream: Stream, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x" * 5000 + "\n")
    limit = ("-X", "max.request.size=2000", "--trigger", "available-now")
    result = stream(str(tmp_path), *limit)
    assert result.exit_code == 1
    assert "more than max_request_size = 2,000" in result.stderr
    assert result.stderr.count("\n") == 1
