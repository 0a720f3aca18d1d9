"""fastprod.cli.commands.perf: the options people know, and what the report says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprod.protocol.api_keys import PRODUCE
from support.peer.scripted_peer import Peer
from unit.cli.conftest import Run


def values(peer: Peer) -> list[bytes]:
    return [value or b"" for index in range(3) for value in peer.values("t", index)]


def test_records_of_a_size_are_delivered_and_reported(run: Run, peer: Peer) -> None:
    result = run(
        *("perf", "--topic", "t", "--num-records", "3000", "--record-size", "50"),
        *("--throughput", "-1", "--bootstrap-server", peer.bootstrap_servers),
    )
    assert result.exit_code == 0, result.stderr
    assert [len(value) for value in values(peer)] == [50] * 3000
    lines = result.stdout.splitlines()
    assert lines[0].startswith("delivered    3,000 records in ")
    assert lines[1].startswith("throughput   ")
    assert lines[1].endswith(" MB/s")
    for name in ("avg", "p50", "p95", "p99", "p99.9", "max"):
        assert f"{name} " in lines[2]
    assert lines[3].strip() == "of 3,000 records, one in 1"
    histogram = [line.split() for line in lines if " ms " in line and line.strip()[0] == "<"]
    assert sum(int(count.replace(",", "")) for _, _, _, count, *_ in histogram) == 3000
    assert lines[4].strip().startswith("< ")
    assert "us/record" in lines[4 + len(histogram)]
    assert lines[5 + len(histogram)].startswith("peak memory  ")


def test_several_settings_follow_one_option_as_in_kafkas_tool(run: Run, peer: Peer) -> None:
    result = run(
        *("perf", "--producer-props", f"bootstrap.servers={peer.bootstrap_servers}", "acks=1"),
        *("client.id=me", "--topic", "t", "--command-property=compression.type=lz4"),
        *("linger.ms=0", "--num-records", "10", "--payload-monotonic"),
    )
    assert result.exit_code == 0, result.stderr
    assert sorted(values(peer)) == [b"%d" % number for number in range(10)]
    request = peer.requests(PRODUCE)[0]
    assert request.client_id == "me"
    assert request.message.acks == 1
    assert {batch.header.codec for batch in peer.batches()} == {3}


def test_a_payload_file_and_a_config_file(run: Run, peer: Peer, tmp_path: Path) -> None:
    (tmp_path / "payloads").write_bytes(b"a;bb;")
    (tmp_path / "config").write_text(f"bootstrap.servers={peer.bootstrap_servers}\n")
    result = run(
        *("perf", "--topic", "t", "--num-records", "5", "--payload-delimiter", ";"),
        *("--payload-file", str(tmp_path / "payloads")),
        *("--producer.config", str(tmp_path / "config")),
    )
    assert result.exit_code == 0, result.stderr
    assert sorted(values(peer)) == [b"a", b"a", b"a", b"bb", b"bb"]


def test_a_warm_up_is_sent_and_not_counted(run: Run, peer: Peer) -> None:
    result = run(
        *("perf", "--topic", "t", "--num-records", "20", "--warmup-records", "30"),
        *("--payload-monotonic", "-b", peer.bootstrap_servers, "--sample-every", "6"),
    )
    assert result.stdout.startswith("delivered    20 records in ")
    assert "of 4 records, one in 6" in result.stdout
    assert sorted(map(int, values(peer))) == list(range(50))


def test_metrics_are_printed_on_demand(run: Run, peer: Peer) -> None:
    arguments = ("perf", "--topic", "t", "--num-records", "5", "--record-size", "1")
    result = run(*arguments, "-b", peer.bootstrap_servers, "--print-metrics")
    assert "metrics\n" in result.stdout
    told = dict(line.split() for line in result.stdout.split("metrics\n")[1].splitlines())
    assert told["record-send-total"] == "5"


def test_records_that_fail_are_exit_code_1_with_the_reason(run: Run, peer: Peer) -> None:
    peer.on(PRODUCE).error(29).always()
    arguments = ("perf", "--topic", "t", "--num-records", "5", "--record-size", "1")
    result = run(*arguments, "-b", peer.bootstrap_servers)
    assert result.exit_code == 1
    assert "failed       5 records" in result.stdout
    assert result.stderr.startswith("fastprod perf: 5 records failed; the first error: ")
    assert "TOPIC_AUTHORIZATION_FAILED" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unknown_host_and_a_refused_port_are_exit_code_3(run: Run, free_port: int) -> None:
    arguments = ("perf", "--topic", "t", "--num-records", "5", "--record-size", "1", "-b")
    assert run(*arguments, "no.invalid:9092").exit_code == 3
    result = run(*arguments, f"127.0.0.1:{free_port}")
    assert result.exit_code == 3
    assert result.stderr == (
        f"fastprod perf: 127.0.0.1:{free_port} refused the connection: nothing listens there\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--record-size", "1"], "Missing option '--topic'."),
        (["--topic", "t"], "Missing option '--num-records'."),
        (["--topic", "t", "--num-records", "0"], "0 is not in the range x>=1"),
        (["--topic", "t", "--num-records", "1"], "exactly one of --record-size"),
        (
            ["--topic", "t", "--num-records", "1", "--record-size", "268435456"],
            "268435456 is not in the range 1<=x<=268435455",
        ),
        (
            ["--topic", "t", "--num-records", "1", "--record-size", "1", "--payload-monotonic"],
            "exactly one of --record-size",
        ),
        (
            ["--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "0"],
            "--throughput: must be -1 or more than 0",
        ),
        (
            ["--topic", "t", "--num-records", "1", "--record-size", "1", "--producer-props", "x"],
            "--command-property: value 1 is not of the form name=value",
        ),
        (["--topic", "t", "--num-records", "1", "stray"], "Got unexpected extra argument"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    run: Run, arguments: list[str], told: str
) -> None:
    result = run("perf", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
