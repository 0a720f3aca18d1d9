"""Node: down and up again, at the same address."""

from __future__ import annotations

import socket
import struct

import pytest

from fastprod.broker import Broker
from fastprod.broker.node import Node

PATIENCE_S = 20.0
ASK_FOR_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)


def connect(node: Node) -> socket.socket:
    return socket.create_connection((node.host, node.port), PATIENCE_S)


def is_answered(client: socket.socket) -> bool:
    """Whether a request on the connection is answered."""
    try:
        client.sendall(struct.pack(">i", len(ASK_FOR_VERSIONS)) + ASK_FOR_VERSIONS)
        answer = client.recv(4096)
    except ConnectionError:
        return False
    return answer[4:8] == struct.pack(">i", 7)


def test_a_node_that_is_down_is_not_there_and_comes_back_at_its_address() -> None:
    with Broker(brokers=2) as broker:
        node = broker.nodes[1]
        address = (node.host, node.port)
        with connect(node) as client:
            assert is_answered(client)
            node.down()
            assert not node.is_up
            assert not is_answered(client)
        with pytest.raises(ConnectionRefusedError):
            connect(node)
        node.up()
        assert (node.host, node.port) == address
        with connect(node) as client:
            assert is_answered(client)


def test_partitions_move_away_from_a_node_that_goes_down() -> None:
    with Broker(brokers=2, topics={"t": 2}) as broker:
        broker.nodes[1].down()
        assert [broker.leader("t", each) for each in (0, 1)] == [0, 0]
        broker.nodes[1].up()
        assert [broker.leader("t", each) for each in (0, 1)] == [0, 0]


def test_partitions_wait_for_a_node_that_goes_down_without_moving_them() -> None:
    with Broker(brokers=2, topics={"t": 2}) as broker:
        broker.nodes[1].down(move_leaders=False)
        assert [broker.leader("t", each) for each in (0, 1)] == [0, -1]
        broker.nodes[1].up()
        assert [broker.leader("t", each) for each in (0, 1)] == [0, 1]


def test_down_and_up_may_be_repeated() -> None:
    with Broker() as broker:
        node = broker.nodes[0]
        node.up()
        assert node.is_up
        node.down()
        node.down()
        assert node.server is None
        assert "down" in repr(node)
        node.up()
        assert "up" in repr(node)
        with connect(node) as client:
            assert is_answered(client)


def test_clients_are_told_an_address_that_they_can_reach() -> None:
    """B1.2: not every address of the machine, but one."""
    with Broker(host="0.0.0.0") as broker:
        assert broker.nodes[0].host == "127.0.0.1"
    with Broker(advertised_host="broker.test") as broker:
        assert broker.bootstrap_servers.startswith("broker.test:")
