"""fastprod.spark.sink.data_source: what needs no session."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from fastprod.broker.broker import Broker
from fastprod.errors import ConfigError, KafkaTimeoutError
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.sink import data_source
from fastprod.spark.sink.commit_total import CommitTotal, add
from fastprod.spark.sink.data_source import FastprodDataSource
from fastprod.spark.sink.task_report import OffsetSpan, TaskReport, summary

SCHEMA = StructType().add("a", LongType(), nullable=False)
VALUE = StructType().add("value", BinaryType())
RUNNER = "pyspark.sql.worker.python_streaming_sink_runner"

NO_TOTALS = {
    "no JSON": b"{",
    "an empty object": b"{}",
    "a list": b"[]",
    "a number": b"3",
    "rows as text": b'{"batch_id": 1, "rows": "2", "offsets": {}}',
    "an unknown figure": b'{"batch_id": 1, "others": 2, "offsets": {}}',
    "offsets in a list": b'{"batch_id": 1, "offsets": [3]}',
    "offsets as text": b'{"batch_id": 1, "offsets": {"t": {"0": ["a", "b"]}}}',
    "nested too deep": b"[" * 100_000,
    "no UTF-8": b"\xff",
}


def source(**options: str) -> FastprodDataSource:
    """With options of the sink whose dots are underscores."""
    given = {f"fastprod.{name.replace('_', '.')}": value for name, value in options.items()}
    return FastprodDataSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "topic": "t",
            "fastprod.validate": "false",
            "fastprod.tune.worker": "false",
            **given,
        }
    )


def test_a_batch_that_is_written_is_committed_whatever_can_be_asked_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, damaged = tmp_path / "report", tmp_path / "total"
    damaged.write_text("{")
    given = FastprodDataSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "kafka.max.block.ms": "100",
            "topic": "t",
            "value.format": "protobuf",
            "protobuf.descriptor": str(tmp_path / "gone"),
            "protobuf.message": "M",
            "fastprod.report.path": str(path),
            "fastprod.total.path": str(damaged),
            "fastprod.tune.worker": "false",
        }
    )
    with pytest.raises(FormatError, match="cannot read"):
        given.streamWriter(SCHEMA, overwrite=False)
    monkeypatch.setitem(sys.modules, RUNNER, sys.modules[__name__])
    given.streamWriter(SCHEMA, overwrite=False).commit([TaskReport(0, 0, rows=3)], 7)
    told = json.loads(path.read_text())
    assert (told["batch_id"], told["rows"]) == (7, 3)
    assert damaged.read_text() == "{"


@pytest.mark.parametrize("found", NO_TOTALS.values(), ids=NO_TOTALS.keys())
def test_a_total_that_is_damaged_after_the_rows_is_told_and_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, found: bytes
) -> None:
    total, report = tmp_path / "total", tmp_path / "report"
    given = source(total_path=str(total), report_path=str(report))
    writer = given.writer(VALUE, overwrite=False)
    total.write_bytes(found)
    with caplog.at_level(logging.ERROR, "fastprod.spark"):
        writer.commit([TaskReport(0, 0, rows=3, offsets={"t": {0: OffsetSpan(0, 2)}})])
    (told,) = caplog.records
    assert str(total) in told.message
    assert total.read_bytes() == found
    assert json.loads(report.read_text())["rows"] == 3


@pytest.mark.parametrize("option", ["report_path", "total_path"])
def test_a_path_that_no_file_can_have_is_told_once_the_rows_are_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, option: str
) -> None:
    monkeypatch.setitem(sys.modules, RUNNER, sys.modules[__name__])
    writer = source(**{option: "a\0b"}).streamWriter(VALUE, overwrite=False)
    with caplog.at_level(logging.ERROR, "fastprod.spark"):
        writer.commit([TaskReport(0, 0, rows=3)], 7)
    (told,) = caplog.records
    assert f"fastprod.{option.replace('_', '.')}" in told.message


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("report_path", "a\0b"),
        ("report_path", "missing/report"),
        ("report_path", "."),
        ("total_path", "a\0b"),
        ("total_path", "."),
        ("total_path", "damaged"),
        ("total_path", "report/total"),
    ],
)
@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_files_that_cannot_be_written_are_refused_before_the_first_row(
    tmp_path: Path, option: str, path: str, kind: str
) -> None:
    (tmp_path / "damaged").write_bytes(NO_TOTALS["an empty object"])
    (tmp_path / "report").touch()
    given = source(**{option: f"{tmp_path}/{path}"})
    with pytest.raises(ConfigError, match=f"fastprod.{option.replace('_', '.')}"):
        getattr(given, kind)(VALUE, overwrite=False)


def away(**options: str) -> FastprodDataSource:
    """A sink that looks for a cluster, of which no broker answers."""
    given = source(validate="true", **options)
    given.options["kafka.max.block.ms"] = "300"
    return given


def test_a_stream_leaves_an_outage_at_a_micro_batch_to_the_tasks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KafkaTimeoutError):
        away().writer(VALUE, overwrite=False)
    with caplog.at_level(logging.WARNING, "fastprod.spark"):
        away().streamWriter(VALUE, overwrite=False)
    assert "127.0.0.1:1" in caplog.text


def test_a_stream_is_told_at_once_of_a_topic_that_the_cluster_does_not_have() -> None:
    with Broker(auto_create_topics=False) as broker:
        given = away()
        given.options["kafka.bootstrap.servers"] = broker.bootstrap_servers
        given.options["topic"] = "missing"
        with pytest.raises(KafkaTimeoutError, match="the broker has no such topic"):
            given.streamWriter(VALUE, overwrite=False)


def test_a_stream_whose_total_is_kept_looks_for_the_cluster_until_it_has_committed() -> None:
    commits = CommitTotal()
    try:
        given = away(total_path=str(commits.path))
        with pytest.raises(KafkaTimeoutError):
            given.streamWriter(VALUE, overwrite=False)
        add(commits.path, summary([TaskReport(0, 0, rows=3)]), 0)
        given.streamWriter(VALUE, overwrite=False)
    finally:
        commits.close()


@contextlib.contextmanager
def registry(port: int, after_s: float = 0.0) -> Iterator[None]:
    """A schema registry that comes after a while."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"id": 258}')

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    def serve() -> None:
        time.sleep(after_s)
        with HTTPServer(("127.0.0.1", port), Answer) as server:
            server.timeout = 0.02
            while not ended.is_set():
                server.handle_request()

    ended = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


def registered(port: int, topic: str, **options: str) -> FastprodDataSource:
    """A sink that registers its schema, and asks once."""
    given = source(**options)
    url = f"http://127.0.0.1:{port}"
    given.options["topic"] = topic
    given.options["value.format"] = "avro"
    given.options["schema.registry.url"] = url
    given.options["schema.registry.max.retries"] = "0"
    return given


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_stream_under_way_waits_for_a_schema_registry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(data_source, "_PAUSE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    commits = CommitTotal()
    try:
        begun = registered(port, "a", total_path=str(commits.path))
        for make in (begun.streamWriter, registered(port, "b").writer):
            with pytest.raises(FormatError, match="did not register"):
                make(SCHEMA, overwrite=False)
        add(commits.path, summary([TaskReport(0, 0, rows=3)]), 0)
        with caplog.at_level(logging.WARNING, "fastprod.spark"), registry(port, 0.5):
            begun.streamWriter(SCHEMA, overwrite=False)
        assert "asking again: the schema registry" in caplog.text
        with registry(port, 0.5):
            registered(port, "c").streamWriter(SCHEMA, overwrite=False)
        with registry(port, 0.5):
            registered(port, "d", under_way="true").writer(SCHEMA, overwrite=False)
        monkeypatch.setattr(data_source, "_REGISTRY_S", 0.1)
        with pytest.raises(FormatError, match="did not register"):
            registered(port, "e").streamWriter(SCHEMA, overwrite=False)
    finally:
        commits.close()


def test_a_pipe_that_nobody_reads_is_refused_and_one_that_is_read_is_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    given = source(report_path=str(path))
    kept = signal.signal(signal.SIGALRM, _raise_timeout)
    signal.alarm(60)
    try:
        with pytest.raises(ConfigError, match=r"fastprod\.report\.path"):
            given.writer(VALUE, overwrite=False)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            given.writer(VALUE, overwrite=False).commit([TaskReport(0, 0, rows=3)])
            assert json.loads(os.read(reader, 65536))["rows"] == 3
        finally:
            os.close(reader)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, kept)


def _raise_timeout(number: int, frame: object) -> None:
    raise AssertionError("it waits")


def test_files_that_can_be_written_are_left_as_they_are(tmp_path: Path) -> None:
    total, report = tmp_path / "total", tmp_path / "report"
    report.write_text("before\n")
    given = source(total_path=str(total), report_path=str(report))
    given.writer(VALUE, overwrite=False)
    assert report.read_text() == "before\n"
    assert not total.exists()


def test_a_commit_without_the_reports_of_its_tasks_is_refused() -> None:
    writer = source().streamWriter(VALUE, overwrite=False)
    writer.commit([TaskReport(0, 0), TaskReport(1, 0)], 0)
    with pytest.raises(ConfigError, match="a continuous trigger is refused"):
        writer.commit([None, None], 1)
