"""All known brokers are gone, and bootstrap_servers lead to others (KIP-899, KIP-1102, P-H.5)."""

from __future__ import annotations

import pytest

from fastprod.errors import DeliveryTimeoutError
from fastprod.partitioner import RoundRobinPartitioner
from fastprod.protocol.api_keys import API_VERSIONS, METADATA
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

REBOOTSTRAP_REQUIRED = 129


def asked_of(peer: Peer, connection_from: int = 1) -> int:
    """Metadata requests on connections from that number on."""
    return sum(each.connection >= connection_from for each in peer.requests(METADATA))


def test_after_all_known_brokers_are_gone_the_bootstrap_servers_are_asked_again(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.5.2, P-H.5.5 (KIP-899): the brokers came back at other addresses, but for the one that
    bootstrap_servers name. Records that waited meanwhile arrive once and in order."""
    cluster = new_peer_cluster(3, {"t": 3})
    door = cluster.node(1)
    servers = door.bootstrap_servers
    # Between two attempts there is time to see that no broker can be asked.
    backoffs = {"reconnect_backoff_ms": 200, "reconnect_backoff_max_ms": 200}
    with quick_producer(servers, **backoffs) as producer:
        for partition in range(3):
            producer.send("t", b"0", partition=partition).result(WAIT_S)
        # Nobody knows of node 1 any more: it is behind the bootstrap address alone.
        for partition in range(3):
            cluster.move_leader("t", partition, 2 + partition % 2)
        cluster.stop(1)
        producer.send("t", b"1", partition=0).result(WAIT_S)
        for node in (2, 3):
            cluster.stop(node)
        futures = [
            producer.send("t", b"%d" % number, partition=partition)
            for number in (2, 3)
            for partition in range(3)
        ]
        cluster.start_again(1)
        for node in (2, 3):
            cluster.start_again(node, new_port=True)
        for future in futures:
            future.result(WAIT_S)
        assert len({each.connection for each in door.requests(METADATA)}) >= 2
    assert cluster.values("t", 0) == [b"0", b"1", b"2", b"3"]
    assert cluster.values("t", 1) == cluster.values("t", 2) == [b"0", b"2", b"3"]


def test_with_strategy_none_only_known_brokers_are_asked(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.5.4: the bootstrap address answers, and nobody asks it."""
    cluster = new_peer_cluster(2, {"t": 1})
    door = cluster.node(2)
    cluster.move_leader("t", 0, 1)
    servers = door.bootstrap_servers
    with quick_producer(
        servers,
        metadata_recovery_strategy="none",
        delivery_timeout_ms=2_000,
        request_timeout_ms=1_000,
    ) as producer:
        producer.send("t", b"x").result(WAIT_S)
        cluster.stop(2)
        producer.send("t", b"x").result(WAIT_S)
        # The answer without node 2 is in: else its address would still be known.
        cluster.wait_until(lambda: len(producer._metadata.cluster.nodes) == 1)
        cluster.stop(1)
        cluster.start_again(2)
        connections = len(door.connections)
        error = producer.send("t", b"x").exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert "refused" in str(error)
        assert len(door.connections) == connections


def test_a_broker_may_send_its_client_back_to_the_bootstrap_servers(new_peer: PeerFactory) -> None:
    """P-H.5.3 (KIP-1102): REBOOTSTRAP_REQUIRED in metadata; every connection is closed for it."""
    old, new = new_peer({"t": 1}), new_peer({"t": 1, "u": 1})
    new.refuse_connections()
    with quick_producer(f"{old.bootstrap_servers},{new.bootstrap_servers}") as producer:
        producer.send("t", b"x").result(WAIT_S)
        new.accept_connections()
        rule = old.on(METADATA).answer(error_code=REBOOTSTRAP_REQUIRED).always()
        # A topic that only the other cluster has; the first one to be asked sends us away.
        assert producer.send("u", b"x").result(WAIT_S).offset == 0
        assert rule.hits >= 1
        old.wait_until(lambda: not old.open_connections)
        assert producer.send("t", b"y").result(WAIT_S).offset == 0
    assert old.values("t", 0) == [b"x"]
    assert new.values("t", 0) == [b"y"]


def test_with_strategy_none_a_rebootstrap_that_is_demanded_is_a_failed_answer(
    peer: Peer,
) -> None:
    """P-H.5.3, P-H.5.4: the same broker is asked again."""
    with quick_producer(peer, metadata_recovery_strategy="none") as producer:
        producer.warmup("t")
        peer.add_topic("u")
        before = len(peer.connections)
        peer.on(METADATA).answer(error_code=REBOOTSTRAP_REQUIRED).times(3)
        assert producer.send("u", b"x").result(WAIT_S).offset == 0
        assert len(peer.connections) == before


@pytest.mark.parametrize("api_key", [API_VERSIONS, METADATA])
def test_metadata_that_does_not_come_for_too_long_starts_everything_anew(
    new_peer: PeerFactory, api_key: int
) -> None:
    """P-H.5.3 (KIP-1102): the connection stands, and no request has timed out."""
    hung, good = new_peer({"t": 1}), new_peer({"t": 1})
    good.refuse_connections()
    rule = hung.on(api_key).silence().always()
    with quick_producer(
        f"{hung.bootstrap_servers},{good.bootstrap_servers}",
        metadata_recovery_rebootstrap_trigger_ms=200,
        request_timeout_ms=60_000,
        max_block_ms=20_000,
    ) as producer:
        rule.wait_for_hits()
        good.accept_connections()
        assert producer.send("t", b"x").result(WAIT_S).offset == 0
        rule.cancel()
    assert good.values("t", 0) == [b"x"]


def test_a_partitioner_of_ones_own_sees_what_was_known_while_nobody_answers(peer: Peer) -> None:
    """P-C.3, P-H.5.2: records wait for the brokers whoever chooses their partitions."""
    with quick_producer(peer, partitioner_class=RoundRobinPartitioner) as producer:
        found = [producer.send("t", b"x").result(WAIT_S).partition]
        peer.refuse_connections()
        peer.close_all()
        producer._metadata.rebootstrap()
        waiting = [producer.send("t", b"x") for _ in range(2)]
        peer.accept_connections()
        found += [future.result(WAIT_S).partition for future in waiting]
    assert sorted(found) == [0, 1, 2]
