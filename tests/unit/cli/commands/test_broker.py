"""fastprod.cli.commands.broker: how it starts, how it ends, and what it refuses."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastprod import KafkaProducer, ProducerConfig
from fastprod.cli.options.properties import read_properties
from unit.cli.conftest import Run

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """Whoever runs the tests under nohup has SIGHUP ignored, and commands would inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_says_where_it_listens_and_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    with started("--topic", "t:3", "--topic", "u") as (process, line):
        assert line.endswith("; records are kept in memory; validation full\n")
        with KafkaProducer(bootstrap_servers=servers(line)) as producer:
            assert producer.send("t", b"one", partition=2).result(PATIENCE_S).offset == 0
            assert len(producer.partitions_for("u")) == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err) == (0, "", "")


def test_nohup_is_obeyed() -> None:
    """It has SIGHUP ignored, and a command inherits that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with started() as (process, line):
            assert servers(line)
            process.send_signal(signal.SIGHUP)
            with KafkaProducer(bootstrap_servers=servers(line)) as producer:
                assert producer.send("t", b"x").result(PATIENCE_S).offset == 0
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


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


def files_of(process: subprocess.Popen[str]) -> dict[str, Path]:
    """The files that the second line names, by their names."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("settings for clients: ")
    paths = [Path(each) for each in line.removeprefix("settings for clients: ").strip().split(", ")]
    return {each.name: each for each in paths}


def test_what_clients_need_stands_in_files_that_end_with_it() -> None:
    with started("--tls", "--sasl-user", "ada", "--sasl-user", "bob:b=\\d") as (process, line):
        files = files_of(process)
        assert set(files) == {"ca.pem", "ada.properties", "bob.properties"}
        assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
        ada = read_properties(files["ada.properties"])
        assert ada["security.protocol"] == "SASL_SSL"
        assert ada["bootstrap.servers"] == servers(line)
        found = ProducerConfig(ada)
        assert found.sasl is not None
        assert found.sasl.username == "ada"
        assert found.sasl.password is not None
        assert len(found.sasl.password) >= 24
        bob = ProducerConfig(read_properties(files["bob.properties"])).sasl
        assert bob is not None
        assert bob.password == "b=\\d"
        context = ssl.create_default_context(cafile=files["ca.pem"])
        host, port = servers(line).split(":")
        with (
            socket.create_connection((host, int(port)), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as client,
        ):
            assert client.version() == "TLSv1.3"
        process.send_signal(signal.SIGHUP)  # as the end of a terminal does
        assert process.wait(PATIENCE_S) == 0
    assert not any(path.exists() for path in files.values())
    assert not files["ca.pem"].parent.exists()


def test_users_come_from_the_environment_and_files_go_where_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTPROD_SASL_USERS", "ada:secret bob")
    folder = tmp_path / "settings"
    options = ("--sasl-mechanism", "scram-sha-512", "--client-settings", str(folder))
    with started(*options) as (process, _):
        files = files_of(process)
        assert files["ada.properties"] == folder / "ada.properties"
        ada = ProducerConfig(read_properties(files["ada.properties"])).sasl
        assert ada is not None
        assert (ada.mechanism, ada.password) == ("SCRAM-SHA-512", "secret")
        process.terminate()
        process.wait(PATIENCE_S)
    assert list(folder.iterdir()) == []


def test_several_listeners_have_files_of_their_own() -> None:
    command = ["--listener", "IN=PLAINTEXT:0", "--listener", "OUT=SASL_SSL:0", "--sasl-user", "a"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fastprod", "broker", *command],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = servers(process.stdout.readline())
        files = files_of(process)
        assert set(files) == {"ca.pem", "IN-client.properties", "OUT-a.properties"}
        assert read_properties(files["IN-client.properties"])["bootstrap.servers"] == first
        assert read_properties(files["OUT-a.properties"])["bootstrap.servers"] != first
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--port", "0", "--sasl-user", "a b:secret"], "--sasl-user is NAME or NAME:PASSWORD"),
        (["--port", "0", "--sasl-user", "ada:"], "--sasl-user is NAME or NAME:PASSWORD"),
        (["--port", "0", "--sasl-user", "a", "--sasl-user", "a:x"], "a is given twice"),
        (["--port", "0", "--tls-key", "k.pem"], "--tls-key goes with --tls-certificate"),
        (["--port", "0", "--tls-certificate", "none.pem"], "none.pem"),
        (["--listener", "A:9092"], "not of the form NAME=PROTOCOL:PORT"),
        (["--listener", "A=TLS:0"], "there are PLAINTEXT, SSL"),
        (["--listener", "A=PLAINTEXT:0", "--port", "0"], "leave it or --listener out"),
    ],
)
def test_a_wrong_option_of_security_is_one_line_without_a_secret(
    run: Run, options: list[str], told: str
) -> None:
    result = run("broker", *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "secret" not in result.stderr
    assert result.stderr.count("\n") == 1
