"""fastprod.cli.commands.broker: how it starts, how it ends, and what it refuses."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastprod import KafkaProducer
from unit.cli.conftest import Run

PATIENCE_S = 30.0


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and what its first line says."""
    command = [sys.executable, "-m", "fastprod", "broker", "--port", "0", *options]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def servers(line: str) -> str:
    found = re.match(r"fastprod broker listening on ([^;]+); ", line)
    assert found is not None, line
    return found[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    with started("--topic", "t:3", "--topic", "u") as (process, line):
        assert line.endswith("; records are kept in memory; validation full\n")
        with KafkaProducer(bootstrap_servers=servers(line)) as producer:
            assert producer.send("t", b"one", partition=2).result(PATIENCE_S).offset == 0
            assert len(producer.partitions_for("u")) == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err) == (0, "", "")


def test_a_signal_ends_it_that_came_while_it_was_stopped() -> None:
    with started() as (process, line):
        assert servers(line)
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0


def test_what_is_kept_in_a_folder_is_there_the_next_time(tmp_path: Path) -> None:
    for offset in range(2):
        with started("--data-dir", str(tmp_path / "data"), "--nodes", "2") as (process, line):
            assert f"; records are kept in {tmp_path / 'data'}; " in line
            assert len(servers(line).split(",")) == 2
            with KafkaProducer(bootstrap_servers=servers(line)) as producer:
                assert producer.send("t", b"x", partition=0).result(PATIENCE_S).offset == offset
            process.terminate()
            assert process.wait(PATIENCE_S) == 0


def test_discarded_records_are_numbered_and_gone() -> None:
    with started("--discard", "--validation", "crc", "--max-versions", "2.8") as (_, line):
        assert line.endswith("; records are discarded; validation crc\n")
        with KafkaProducer(bootstrap_servers=servers(line)) as producer:
            offsets = [producer.send("t", b"x").result(PATIENCE_S).offset for _ in range(3)]
        assert offsets == [0, 1, 2]


def test_without_auto_create_an_unknown_topic_stays_unknown() -> None:
    with (
        started("--no-auto-create") as (_, line),
        KafkaProducer(bootstrap_servers=servers(line), max_block_ms=300) as producer,
    ):
        assert producer.send("t", b"x").exception(PATIENCE_S) is not None


def test_it_ends_with_its_standard_input_if_told_to() -> None:
    with started("--end-with-stdin") as (process, line):
        assert servers(line)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--port", "65536"], "65536 is not in the range"),
        (["--topic", "t:many"], "'many' is not a number of partitions"),
        (["--topic", "t/u"], "t/u"),
        (["--topic", "t:1", "--topic", "t:2"], "--topic t: given with 1 and with 2"),
        (["--max-versions", "9.9"], "9.9"),
        (["--discard", "--data-dir", "d"], "leave --data-dir out"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    run: Run, options: list[str], told: str
) -> None:
    result = run("broker", "--port", "0", *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_port_in_use_is_one_line_and_exit_code_3(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("broker", "--port", str(port))
    assert result.exit_code == 3
    assert f"cannot serve on 127.0.0.1:{port}" in result.stderr
    assert result.stderr.count("\n") == 1
