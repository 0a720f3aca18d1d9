"""fastprod.cli.cluster.plain_channel: why an exchange in plain text fails."""

from __future__ import annotations

import select
import socket

import pytest

from fastprod.cli.cluster.broker_connection import BrokerConnection
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.cluster.plain_channel import PlainChannel
from fastprod.client.connections.addresses import Address
from fastprod.protocol.api_keys import METADATA
from support.peer.scripted_peer import Peer
from unit.cli.conftest import CannedServer

TIMEOUT_S = 20.0
SHORT_S = 0.2


def address(where: str) -> Address:
    host, _, port = where.rpartition(":")
    return Address(socket.AF_INET, host, int(port))


def trouble(where: str, timeout_s: float = TIMEOUT_S) -> ConnectionTrouble:
    with pytest.raises(ConnectionTrouble) as raised:
        BrokerConnection(PlainChannel(address(where), timeout_s), timeout_s)
    assert where in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answers in HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "starts with the text 'SSH-'"),
        (bytes.fromhex("15030300020228"), "TLS alert"),
        (bytes.fromhex("80000001ffff"), "starts with the bytes 80 00 00 01"),
        (bytes.fromhex("00000002ffff"), "starts with the bytes 00 00 00 02"),
        (bytes.fromhex("00000004 00000007"), "belongs to no request"),
        (bytes.fromhex("00000006 00000001 0000"), "does not parse"),
    ],
)
def test_what_is_not_kafka_is_told_by_its_first_bytes(
    canned_server: CannedServer, answer: bytes, told: str
) -> None:
    error = trouble(canned_server(answer))
    assert error.cause == "not kafka"
    assert told in str(error)


def test_a_server_that_hangs_up_is_told_from_one_that_is_silent(
    canned_server: CannedServer,
) -> None:
    hanging_up = trouble(canned_server(b""))
    assert hanging_up.cause == "closed"
    assert "instead of answering ApiVersions" in str(hanging_up)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = trouble(f"127.0.0.1:{silent.getsockname()[1]}", SHORT_S)
    assert error.cause == "timeout"
    assert "did not answer ApiVersions within 0.2 s" in str(error)


def test_a_broker_that_hangs_up_after_api_versions_wants_sasl(peer: Peer) -> None:
    peer.on(METADATA).close()
    with (
        BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection,
        pytest.raises(ConnectionTrouble, match=r"answering Metadata: its listener wants SASL"),
    ):
        connection.metadata()


def test_a_refused_connection_is_told(free_port: int) -> None:
    error = trouble(f"127.0.0.1:{free_port}")
    assert error.cause == "refused"
    assert "nothing listens there" in str(error)


def test_a_full_listener_times_out() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        where = f"127.0.0.1:{listening.getsockname()[1]}"
        filling = [socket.socket() for _ in range(3)]
        try:
            for each in filling:
                each.setblocking(False)
                each.connect_ex(listening.getsockname())
            assert select.select([], filling, [], TIMEOUT_S)[1], "there is room for one"
            error = trouble(where, SHORT_S)
        finally:
            for each in filling:
                each.close()
    assert error.cause == "timeout"
    assert "did not take a connection within 0.2 s" in str(error)
