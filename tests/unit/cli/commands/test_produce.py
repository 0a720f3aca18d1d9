"""fastprod.cli.commands.produce: from lines to records, and every way in which that may end."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fastprod.broker.broker import Broker
from fastprod.cli.commands import produce as produce_module
from fastprod.cli.records.line_records import LineRecords
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer
from unit.cli.conftest import Run, properties_file


@pytest.fixture
def single(new_peer: PeerFactory) -> Peer:
    """A peer with topic "one" of one partition."""
    return new_peer(topics={"one": 1})


def test_lines_of_standard_input_become_records(run: Run, single: Peer) -> None:
    result = run("produce", "one", "-b", single.bootstrap_servers, input=b"a\n\n\xff\x00\r\nlast")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("4 records delivered to one in ")
    assert result.stderr == ""
    assert single.values("one", 0) == [b"a", b"", b"\xff\x00\r", b"last"]


def test_keys_headers_and_compression(run: Run, single: Peer, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"k1\tv1\nk2\tv\t2\n")
    result = run(
        *("produce", "one", str(file), "-b", single.bootstrap_servers, "-K", r"\t"),
        *("-H", "h=1", "--header", "h=x=y", "-H", "empty=", "--compression", "gzip", "-q"),
    )
    assert (result.exit_code, result.stdout) == (0, "")
    records = single.log("one", 0)
    assert [(record.key, record.value) for record in records] == [(b"k1", b"v1"), (b"k2", b"v\t2")]
    assert list(records[0].headers) == [("h", b"1"), ("h", b"x=y"), ("empty", b"")]
    assert {batch.header.codec for batch in single.batches("one", 0)} == {1}


def test_a_line_without_its_separator_fails_and_the_others_are_delivered(
    run: Run, single: Peer
) -> None:
    arguments = ("produce", "one", "-", "-b", single.bootstrap_servers, "-K", ":")
    result = run(*arguments, input=b"a:1\nb\nc:3\n")
    assert result.exit_code == 1
    assert result.stderr == (
        "fastprod produce: 2 records delivered, 1 failed; the first: line 2 has no key separator "
        "b':'\n"
    )
    assert single.values("one", 0) == [b"1", b"3"]


def test_a_line_that_is_too_long_fails_and_the_others_are_delivered(run: Run, single: Peer) -> None:
    data = b"a\n" + b"x" * 3000 + b"\n" + b"y" * 990 + b"\nb\n"
    servers = single.bootstrap_servers
    result = run("produce", "one", "-b", servers, "-X", "max.request.size=1000", input=data)
    assert result.exit_code == 1
    assert "2 records delivered, 2 failed; the first: line 2 is longer" in result.stderr
    assert single.values("one", 0) == [b"a", b"b"]


def test_what_the_broker_refuses_is_a_failed_record_with_its_reason(run: Run, single: Peer) -> None:
    single.on(PRODUCE).error(29).always()
    result = run("produce", "one", "-b", single.bootstrap_servers, input=b"a\n")
    assert result.exit_code == 1
    assert "0 records delivered, 1 failed; the first:" in result.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_broker_that_falls_silent_is_given_up_after_the_delivery_timeout(
    run: Run, single: Peer
) -> None:
    single.on(PRODUCE).silence().always()
    # Long enough for the answers before the silence.
    bounds = (
        *("-X", "delivery.timeout.ms=1600", "-X", "request.timeout.ms=1500"),
        *("-X", "linger.ms=0"),
    )
    result = run("produce", "one", "-b", single.bootstrap_servers, *bounds, input=b"a\nb\n")
    assert result.exit_code == 1
    assert "0 records delivered, 2 failed; the first:" in result.stderr
    assert "delivery_timeout_ms = 1,600" in result.stderr
    assert result.stderr.count("\n") == 1


def test_ctrl_c_ends_the_reading_and_delivers_what_was_read(
    run: Run, single: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(LineRecords):
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield None, b"a"
            yield None, b"b"
            raise KeyboardInterrupt

    monkeypatch.setattr(produce_module, "LineRecords", Interrupted)
    result = run("produce", "one", "-b", single.bootstrap_servers, input=b"")
    assert result.exit_code == 130
    assert result.stderr == "fastprod produce: interrupted: 2 records delivered, 0 failed\n"
    assert single.values("one", 0) == [b"a", b"b"]


def test_no_bar_is_drawn_over_lines_that_are_typed(single: Peer) -> None:
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "fastprod", "produce", "one", "-b", single.bootstrap_servers]
    try:
        process = subprocess.Popen(
            command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True
        )
        os.close(terminal)
        shown = b""
        while b"Ctrl-D ends" not in shown:
            shown += os.read(keyboard, 1000)
        os.write(keyboard, b"typed\n\x04")
        out, _ = process.communicate(timeout=60)
        with contextlib.suppress(OSError):  # EIO: that was all
            while True:
                shown += os.read(keyboard, 10_000)
    finally:
        os.close(keyboard)
    assert out.startswith("1 records delivered to one in ")
    assert b"typed" in shown
    assert b"\x1b" not in shown
    assert single.values("one", 0) == [b"typed"]


def test_a_file_that_cannot_be_read_to_its_end_fails(
    run: Run, single: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    def broken(stream: object, *rest: object) -> LineRecords:
        return LineRecords(Broken(), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(produce_module, "LineRecords", broken)
    result = run("produce", "one", "-b", single.bootstrap_servers, input=b"")
    assert result.exit_code == 1
    assert "reading failed: Input/output error" in result.stderr


def test_an_unknown_host_and_a_refused_port_are_exit_code_3(run: Run, free_port: int) -> None:
    servers = f"no.invalid:9092,127.0.0.1:{free_port}"
    result = run("produce", "t", "-b", servers, input=b"a\n")
    assert result.exit_code == 3
    assert result.stderr.startswith("fastprod produce: DNS does not know the host 'no.invalid'")
    assert f"127.0.0.1:{free_port} refused the connection: nothing listens" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_topic_that_is_not_there_is_exit_code_3(run: Run, peer: Peer) -> None:
    servers = peer.bootstrap_servers
    result = run("produce", "none", "-b", servers, "--timeout", "3", input=b"a\n")
    assert result.exit_code == 3
    assert "Topic none not present in metadata after" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing argument 'TOPIC'."),
        (["t", "/no/such/file"], "No such file or directory"),
        (["t", "-H", "nameless"], "it is not of the form name=value"),
        (["t", "-H", "=v"], "it is not of the form name=value"),
        (["t", "-K", ""], "must have at least one character"),
        (["t", "--compression", "rar"], "'rar' is not one of"),
        (["t", "-X", "linger.ms"], "--command-property: value 1 is not of the form name=value"),
        (["t", "-X", "linger.ms=soon"], "linger.ms = 'soon': must be 'adaptive' or an integer"),
        (["t", "-b", "nowhere"], "must be host:port"),
        (["t", "--command-config", "/no/such/file"], "cannot read /no/such/file"),
        (["t", "--timeout", "0"], "0.0 is not in the range"),
        (["t", "--bogus"], "No such option"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    run: Run, arguments: list[str], told: str
) -> None:
    result = run("produce", *arguments, input=b"")
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_lines_go_to_a_protected_cluster_and_a_wrong_password_is_exit_code_3(
    run: Run, tmp_path: Path
) -> None:
    with Broker(tls=True, sasl_users={"ada": "s3cret"}, topics=["one"]) as broker:
        given = broker.client_settings("ada", mechanism="SCRAM-SHA-512")
        path = properties_file(tmp_path / "good", given)
        result = run("produce", "one", "--command-config", path, input=b"a\nb\n")
        assert (result.exit_code, result.stderr) == (0, "")
        assert [record.value for record in broker.records("one")] == [b"a", b"b"]
        wrong = properties_file(tmp_path / "bad", given | {"sasl.password": "wr0ng"})
        result = run("produce", "one", "--command-config", wrong, input=b"a\n")
        assert result.exit_code == 3
        assert result.stderr.count("\n") == 1
        assert "refused user 'ada' by SCRAM-SHA-512" in result.stderr
        assert "wr0ng" not in result.stderr
        result = run(
            "produce",
            "one",
            "-X",
            "ssl.truststore.location=/no/such",
            *("--command-config", path),
            input=b"a\n",
        )
    assert result.exit_code == 2
