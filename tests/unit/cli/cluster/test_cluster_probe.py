"""fastprod.cli.cluster.cluster_probe: what can be reached of a cluster, and what not."""

from __future__ import annotations

import pytest

from fastprod.cli.cluster.cluster_probe import examine_cluster, offered_versions, reach_cluster
from fastprod.cli.output.failure import Unreachable
from fastprod.config_values import BootstrapAddress
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

TIMEOUT_S = 20.0
UNKNOWN = BootstrapAddress("no.invalid", 9092)


def of(peer: Peer) -> BootstrapAddress:
    return BootstrapAddress("127.0.0.1", peer.port)


def test_the_first_server_that_answers_is_taken(peer: Peer, free_port: int) -> None:
    refusing = BootstrapAddress("127.0.0.1", free_port)
    with reach_cluster([UNKNOWN, refusing, of(peer)], TIMEOUT_S) as connection:
        assert connection.where == f"127.0.0.1:{peer.port}"


def test_if_none_answers_each_reason_is_told(free_port: int) -> None:
    refusing = BootstrapAddress("127.0.0.1", free_port)
    with pytest.raises(Unreachable) as raised:
        reach_cluster([UNKNOWN, refusing], TIMEOUT_S)
    told = raised.value.message
    assert "'no.invalid'" in told
    assert f"127.0.0.1:{free_port} refused the connection" in told


def test_a_healthy_cluster_has_no_fault(new_peer_cluster: PeerClusterFactory) -> None:
    cluster = new_peer_cluster(nodes=2, topics={"t": 4, "u": 1})
    cluster.node(2).speak(PRODUCE, 3, 8)
    found = examine_cluster([of(cluster.node(1)), of(cluster.node(2))], TIMEOUT_S)
    assert found.faults == []
    assert [broker.node_id for broker in found.brokers] == [1, 2]
    assert [broker.produce_version for broker in found.brokers] == [13, 8]
    assert found.least_produce_version == 8
    assert found.metadata is not None
    assert len(found.metadata.topics) == 2
    assert all(server.took_ms > 0 for server in found.bootstrap)


def test_a_bootstrap_server_that_is_down_is_no_fault_of_a_cluster_that_is_up(
    peer: Peer, free_port: int
) -> None:
    found = examine_cluster([BootstrapAddress("127.0.0.1", free_port), of(peer)], TIMEOUT_S)
    assert "refused" in found.bootstrap[0].troubles[0]
    assert found.bootstrap[1].reached_at == f"127.0.0.1:{peer.port}"
    assert found.faults == []


def test_an_announced_broker_that_cannot_be_reached_is_a_fault(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    cluster = new_peer_cluster(nodes=2, topics={"t": 2})
    cluster.node(2).refuse_connections()
    found = examine_cluster([of(cluster.node(1))], TIMEOUT_S)
    assert len(found.faults) == 1
    where = f"127.0.0.1:{cluster.node(2).port}"
    assert f"broker 2, which the cluster announces as {where}, cannot" in found.faults[0]
    assert "refused the connection" in found.faults[0]
    assert found.least_produce_version is None


def test_a_broker_without_a_common_version_of_produce_is_a_fault(new_peer: PeerFactory) -> None:
    peer = new_peer(versions={PRODUCE: (0, 2)})
    found = examine_cluster([of(peer)], TIMEOUT_S)
    assert "shares no version of Produce" in found.faults[0]
    assert found.brokers[0].produce_version is None


def test_a_bootstrap_server_that_tells_no_metadata_is_a_fault(peer: Peer) -> None:
    peer.on(METADATA).close()
    found = examine_cluster([of(peer)], TIMEOUT_S)
    assert found.metadata is None
    assert "instead of answering Metadata" in found.faults[0]


def test_partitions_without_a_leader_are_counted(peer: Peer) -> None:
    peer.tell("t", 1, leader=-1)
    found = examine_cluster([of(peer)], TIMEOUT_S)
    assert found.leaderless_count == 1


def test_versions_are_told_with_the_one_in_use(new_peer: PeerFactory) -> None:
    peer = new_peer(versions={PRODUCE: (0, 9), INIT_PRODUCER_ID: None, METADATA: (0, 5)})
    with reach_cluster([of(peer)], TIMEOUT_S) as connection:
        assert offered_versions(connection.versions) == {
            "Produce": "0..9, 9 is used",
            "Metadata": "0..5, 5 is used",
            "InitProducerId": "not offered",
        }
