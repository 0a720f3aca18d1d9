"""fastprod.cli.cluster.broker_connection: what one exchange tells, and why it fails."""

from __future__ import annotations

import socket

import pytest

from fastprod.cli.cluster.broker_connection import BrokerConnection
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.client.connections.addresses import Address
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, METADATA
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

TIMEOUT_S = 20.0
SHORT_S = 0.2


def address(where: str) -> Address:
    host, _, port = where.rpartition(":")
    return Address(socket.AF_INET, host, int(port))


def trouble(where: str, timeout_s: float = TIMEOUT_S) -> ConnectionTrouble:
    with pytest.raises(ConnectionTrouble) as raised:
        BrokerConnection(address(where), timeout_s)
    assert where in str(raised.value)
    return raised.value


def test_a_broker_tells_its_versions_brokers_and_topics(peer: Peer) -> None:
    with BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection:
        assert connection.versions.versions[METADATA] == (0, 13)
        found = connection.metadata()
        assert [broker.port for broker in found.brokers] == [peer.port]
        assert [(topic.name, len(topic.partitions)) for topic in found.topics] == [("t", 3)]
        assert [topic.name for topic in connection.metadata(["t"]).topics] == ["t"]


def test_an_old_broker_is_asked_again_in_its_own_version(new_peer: PeerFactory) -> None:
    peer = new_peer(versions={API_VERSIONS: (0, 1)})
    with BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection:
        assert connection.versions.versions[API_VERSIONS] == (0, 1)
    assert [request.version for request in peer.requests(API_VERSIONS)] == [4, 1]


def test_half_an_answer_is_waited_for_until_the_timeout(new_peer: PeerFactory) -> None:
    peer = new_peer()
    rule = peer.on(API_VERSIONS).truncate(20, close=False)
    assert trouble(peer.bootstrap_servers, SHORT_S).cause == "timeout"
    rule.wait_for_hits()  # a peer that was slow has it to come


def test_an_answer_in_small_parts_is_put_together(peer: Peer) -> None:
    peer.on(API_VERSIONS).dribble(3)
    with BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection:
        assert connection.versions.versions[METADATA] == (0, 13)


def test_an_error_code_is_told_by_name(peer: Peer) -> None:
    peer.on(METADATA).answer(error_code=31)
    with (
        BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection,
        pytest.raises(ConnectionTrouble, match=r"refuses Metadata: .*CLUSTER_AUTHORIZATION"),
    ):
        connection.metadata()


def test_a_broker_without_an_api_is_told(peer: Peer) -> None:
    with (
        BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection,
        pytest.raises(ConnectionTrouble, match="does not offer CreateTopics"),
    ):
        connection.create_topic("new", 1)


def test_a_topic_is_created_and_deleted_or_refused_with_kafkas_error(
    new_peer: PeerFactory,
) -> None:
    peer = new_peer(versions={CREATE_TOPICS: (2, 7), DELETE_TOPICS: (1, 6)})
    row = {"name": "new", "error_code": 0}
    created = row | {"topic_id": bytes(16), "error_message": None, "configs": None}
    peer.on(CREATE_TOPICS).reply(lambda _: {"throttle_time": 0, "topics": [created]})
    refused = created | {"error_code": 36, "error_message": "it is there"}
    peer.on(CREATE_TOPICS).reply(lambda _: {"throttle_time": 0, "topics": [refused]})
    peer.on(DELETE_TOPICS).reply(lambda _: {"throttle_time": 0, "responses": [row]})
    with BrokerConnection(address(peer.bootstrap_servers), TIMEOUT_S) as connection:
        connection.create_topic("new", 3)
        with pytest.raises(KafkaError, match="it is there") as raised:
            connection.create_topic("new", 3)
        connection.delete_topic("new")
    assert raised.value.code == 36
    assert [request.version for request in peer.requests(CREATE_TOPICS)] == [7, 7]
    asked = peer.requests(CREATE_TOPICS)[0].message.topics[0]
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("new", 3, -1)
    assert list(peer.requests(DELETE_TOPICS)[0].message.topic_names) == ["new"]
