"""Node: down and up again, at the same address."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker import Broker
from fastprod.broker.node import Node, NodeServer
from fastprod.broker.server.node_services import NodeServices
from fastprod.errors import IllegalStateError
from fastprod.protocol.messages.metadata import MetadataRequest
from support.broker.sasl_client import SaslClient
from support.broker.world import wait_for

METADATA = 3
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


def test_the_first_node_to_serve_tells_of_all_nodes_and_leaders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[list[int], list[int]]] = []
    bring_up = NodeServer.up

    def ask_when_up(server: NodeServer) -> None:
        bring_up(server)
        with SaslClient(server.port) as client:
            metadata = client.ask(METADATA, 9, MetadataRequest(topics=None))
        (topic,) = metadata.topics
        nodes = [each.node_id for each in metadata.brokers]
        told.append((nodes, sorted(each.leader_id for each in topic.partitions)))

    monkeypatch.setattr(NodeServer, "up", ask_when_up)
    with Broker(brokers=3, topics={"t": 3}):
        assert told == [([0, 1, 2], [0, 1, 2])] * 3


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
        assert broker._servers[0].server is None
        assert "down" in repr(node)
        node.up()
        assert "up" in repr(node)
        with connect(node) as client:
            assert is_answered(client)


def test_a_node_of_a_stopped_broker_stays_down() -> None:
    with Broker(brokers=2) as broker:
        node = broker.nodes[1]
        node.down()
    with pytest.raises(IllegalStateError, match="stopped"):
        node.up()
    assert not node.is_up
    node.down()
    with pytest.raises(ConnectionRefusedError):
        connect(node)


def test_clients_are_told_an_address_that_they_can_reach() -> None:
    """B-B1.2: not every address of the machine, but one."""
    with Broker(host="0.0.0.0") as broker:
        assert broker.nodes[0].host == "127.0.0.1"
    with Broker(advertised_host="broker.test") as broker:
        assert broker.bootstrap_servers.startswith("broker.test:")


def disk_is_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_node_is_down_although_it_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(brokers=2, data_dir=tmp_path, topics={"t": 2}) as broker:
        node = broker.nodes[1]
        with connect(node) as client:
            assert is_answered(client)
            with monkeypatch.context() as full:
                full.setattr(broker._running().topics, "_on_change", disk_is_full)
                with pytest.raises(OSError, match="No space left"):
                    node.down()
                assert broker.leader("t", 1) == 1
            assert not node.is_up
            assert not is_answered(client)
        with pytest.raises(ConnectionRefusedError):
            connect(node)
        # It is tried again.
        wait_for(lambda: broker.leader("t", 1) == 0)
        node.up()
        with connect(node) as client:
            assert is_answered(client)


def test_a_node_is_up_although_it_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(brokers=2, data_dir=tmp_path, topics={"t": 2}) as broker:
        node = broker.nodes[1]
        node.down(move_leaders=False)
        with monkeypatch.context() as full:
            full.setattr(broker._running().topics, "_on_change", disk_is_full)
            with pytest.raises(OSError, match="No space left"):
                node.up()
            assert broker.leader("t", 1) == -1
        assert node.is_up
        wait_for(lambda: broker.leader("t", 1) == 1)
        with connect(node) as client:
            assert is_answered(client)


def test_a_port_is_free_again_if_its_node_could_not_come_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Broker() as broker:
        (node,) = broker.nodes
        node.down()
        with monkeypatch.context() as patched:
            patched.setattr(NodeServices, "limit_connections", None)
            with pytest.raises(TypeError):
                node.up()
        node.up()
        assert node.is_up


def test_what_has_not_ended_in_time_is_ended_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        node = broker.nodes[0]
        server = broker._servers[0].server
        assert server is not None

        def takes_too_long(*_: object) -> None:
            raise TimeoutError("still busy")

        with monkeypatch.context() as busy:
            busy.setattr(server, "shutdown", takes_too_long)
            with pytest.raises(TimeoutError):
                node.down()
            assert not node.is_up
            # The next `up` waits for it: it may have the port.
            with pytest.raises(TimeoutError):
                node.up()
        node.up()
        with connect(node) as client:
            assert is_answered(client)
        assert broker._servers[0].server is not server


@pytest.mark.parametrize("num_io_threads", [0, 1])
def test_an_interceptor_may_take_its_own_node_down(num_io_threads: int) -> None:
    with Broker(brokers=2, topics={"t": 2}, num_io_threads=num_io_threads) as broker:
        node = broker.nodes[1]
        raised: list[BaseException] = []
        called = threading.Event()

        def take_down(seen: Any) -> None:
            for refused in (broker.stop, node.up):
                node.down()
                try:
                    refused()
                except IllegalStateError as error:
                    raised.append(error)
            called.set()

        end = broker.faults.intercept(take_down)
        with connect(node) as client:
            is_answered(client)
            assert called.wait(PATIENCE_S)
        end()
        assert len(raised) == 2
        assert not node.is_up
        assert broker.leader("t", 1) == 0
        node.down()
        with pytest.raises(ConnectionRefusedError):
            connect(node)
        node.up()
        with connect(node) as client:
            assert is_answered(client)


def test_an_interceptor_is_not_kept_by_who_waits_for_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Broker(brokers=2) as broker:
        node = broker.nodes[1]
        is_in, waits, is_out = threading.Event(), threading.Event(), threading.Event()
        server = broker._servers[1].server
        assert server is not None
        shutdown = server.shutdown

        def shutdown_and_tell(*words: Any) -> None:
            waits.set()
            shutdown(*words)

        monkeypatch.setattr(server, "shutdown", shutdown_and_tell)

        def take_down(seen: Any) -> None:
            is_in.set()
            assert waits.wait(PATIENCE_S)
            node.down()
            is_out.set()

        broker.faults.intercept(take_down)
        with connect(node) as client:
            client.sendall(struct.pack(">i", len(ASK_FOR_VERSIONS)) + ASK_FOR_VERSIONS)
            assert is_in.wait(PATIENCE_S)
            node.down()
        assert is_out.is_set()
