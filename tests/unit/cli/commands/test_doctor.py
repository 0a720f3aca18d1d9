"""fastprod.cli.commands.doctor: what is told of this machine and of a cluster."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fastprod._core.bytes import crc32c
from fastprod.broker.broker import Broker
from support.peer.fixtures import PeerClusterFactory
from support.peer.scripted_peer import Peer
from unit.cli.conftest import CannedServer, Run, properties_file


def test_without_a_cluster_it_tells_what_is_installed(run: Run) -> None:
    result = run("doctor")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line for line in lines if line and line[0] != " "] == [
        "fastprod",
        "machine",
        "engine",
        "packages",
        "comparison",
    ]
    assert any(line.split()[:2] == ["CRC-32C", crc32c.backend()] for line in lines)


def test_a_cluster_that_can_be_reached_is_described(run: Run, peer: Peer) -> None:
    result = run("doctor", "-b", peer.bootstrap_servers)
    assert (result.exit_code, result.stderr) == (0, "")
    told = " ".join(result.stdout.split())
    assert f"{peer.bootstrap_servers} yes, at {peer.bootstrap_servers}, in " in told
    assert "brokers 1 topics 1, 3 partitions least Produce version 13" in told
    assert f"broker 1, announced as {peer.bootstrap_servers}" in told
    assert "Produce 0..13, 13 is used" in told


def test_a_broker_that_cannot_be_reached_is_exit_code_3(
    run: Run, new_peer_cluster: PeerClusterFactory
) -> None:
    cluster = new_peer_cluster(nodes=2, topics={"t": 2})
    cluster.node(2).refuse_connections()
    result = run("doctor", "-b", f"127.0.0.1:{cluster.node(1).port}")
    assert result.exit_code == 3
    assert "least Produce version  none" in result.stdout
    assert result.stderr.startswith("fastprod doctor: broker 2, which the cluster announces as ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answers in HTTP"), (b"", "closed the connection")],
)
def test_a_server_that_is_no_kafka_is_exit_code_3(
    run: Run, canned_server: CannedServer, answer: bytes, told: str
) -> None:
    result = run("doctor", "-b", canned_server(answer))
    assert result.exit_code == 3
    assert told in result.stderr
    assert told in result.stdout


def test_a_silent_server_is_waited_for_no_longer_than_the_timeout(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        result = run("doctor", "-b", where, "--timeout", "2")
    assert result.exit_code == 3
    assert "did not answer ApiVersions within 2 s" in result.stderr


def test_an_unknown_host_and_a_refused_port_are_exit_code_3(run: Run, free_port: int) -> None:
    result = run("doctor", "-b", f"no.invalid:9092,127.0.0.1:{free_port}")
    assert result.exit_code == 3
    assert "DNS does not know the host 'no.invalid'" in result.stderr
    assert "refused the connection" in result.stderr


def test_an_address_that_is_none_is_exit_code_2(run: Run) -> None:
    assert run("doctor", "-b", "nowhere").exit_code == 2


def test_a_protected_cluster_is_described_by_a_file_of_settings(run: Run, tmp_path: Path) -> None:
    with Broker(brokers=2, tls=True, sasl_users={"ada": "s3cret"}, topics={"t": 3}) as broker:
        given = broker.client_settings("ada")
        result = run("doctor", "--command-config", properties_file(tmp_path / "good", given))
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.count("reached  ") == 2
        wrong = properties_file(tmp_path / "bad", given | {"sasl.password": "wr0ng"})
        result = run("doctor", "--command-config", wrong)
    assert result.exit_code == 3
    assert "check sasl_username and sasl_password" in result.stderr
    assert "wr0ng" not in result.output


def test_servers_may_have_librdkafkas_name(run: Run, peer: Peer, tmp_path: Path) -> None:
    path = properties_file(tmp_path / "p", {"metadata.broker.list": peer.bootstrap_servers})
    assert run("doctor", "--command-config", path).exit_code == 0
    twice = run("doctor", "-b", peer.bootstrap_servers, "--command-config", path)
    assert twice.exit_code == 0
