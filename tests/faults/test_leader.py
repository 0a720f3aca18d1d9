"""Leaders that leave, come back, are unknown, or not where metadata says (P-H.4, P-H.6)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fastprod.errors import DeliveryTimeoutError
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory
from support.peer.scripted_peer import PeerCluster

LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74
NO_LEADER = -1


def partition_of(cluster: PeerCluster, node: int) -> int:
    return next(each for each in (0, 1) if cluster.leader("t", each) == node)


@pytest.mark.parametrize("new_port", [False, True])
def test_a_leader_that_left_the_cluster_and_came_back_gets_what_waited(
    new_peer_cluster: PeerClusterFactory, new_port: bool
) -> None:
    """P-H.4.4: gone from the list of brokers, and named as the leader all the while. Nobody else
    waits for it; the backoff of delivery is the only bound."""
    cluster = new_peer_cluster(2, {"t": 2})
    gone, there = partition_of(cluster, 2), partition_of(cluster, 1)
    with quick_producer(cluster.node(1)) as producer:
        for partition in (0, 1):
            producer.send("t", b"0", partition=partition).result(WAIT_S)
        cluster.stop(2)
        waiting = [producer.send("t", b"%d" % number, partition=gone) for number in (1, 2)]
        cluster.wait_until(lambda: producer._metadata.cluster.node(2) is None)
        producer.send("t", b"1", partition=there).result(WAIT_S)
        assert producer.partitions_for("t")[gone].leader is None
        cluster.start_again(2, new_port=new_port)
        assert [future.result(WAIT_S).offset for future in waiting] == [1, 2]
    assert cluster.values("t", gone) == [b"0", b"1", b"2"]
    assert cluster.values("t", there) == [b"0", b"1"]


@pytest.mark.parametrize("is_named", [True, False])
def test_records_without_a_leader_expire_and_the_error_says_so(
    new_peer_cluster: PeerClusterFactory, is_named: bool
) -> None:
    """P-D.5.1, P-D.8.2, P-H.4.4. Metadata is asked for ever more slowly (KIP-580)."""
    cluster = new_peer_cluster(2, {"t": 2})
    gone = partition_of(cluster, 2)
    with quick_producer(
        cluster.node(1),
        request_timeout_ms=2_000,
        delivery_timeout_ms=2_500,
        retry_backoff_ms=50,
        retry_backoff_max_ms=400,
        linger_ms=0,
    ) as producer:
        producer.warmup("t")
        if is_named:
            cluster.stop(2)
            cluster.wait_until(lambda: producer._metadata.cluster.node(2) is None)
        else:
            cluster.move_leader("t", gone, NO_LEADER)
            cluster.tell("t", gone, error_code=LEADER_NOT_AVAILABLE)
            cluster.node(2).on(PRODUCE).error(LEADER_NOT_AVAILABLE)
            assert producer.send("t", b"x", partition=gone).exception(WAIT_S) is not None
        before = len(cluster.requests(METADATA))
        began_s = time.monotonic()
        error = producer.send("t", b"x", partition=gone).exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert error.attempts == 0
        asked = len(cluster.requests(METADATA)) - before
        most = 5 + (time.monotonic() - began_s) / 0.28
        assert 2 <= asked <= most, "50 ms each time would be 50"
        if not is_named:
            assert error.reason == "the partition has no known leader"
        cluster.tell("t", gone, error_code=0)
        if is_named:
            cluster.start_again(2)
        cluster.move_leader("t", gone, 1)
        assert producer.send("t", b"y", partition=gone).result(WAIT_S).topic == "t"
    assert cluster.values("t", gone)[-1] == b"y"


def test_metadata_that_lags_behind_is_asked_until_it_tells_the_new_leader(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.2.6, P-L.129 ...LeaderShipChangeErrorButNoNewLeaderInformation: the old leader refuses,
    and every record is there once and in order at the end."""
    cluster = new_peer_cluster(2, {"t": 2}, leader_hints=False)
    moved = partition_of(cluster, 2)
    with quick_producer(cluster.node(1), linger_ms=0) as producer:
        producer.warmup("t")
        cluster.move_leader("t", moved, 1, told=False)
        futures = [producer.send("t", b"%d" % number, partition=moved) for number in range(20)]
        before = len(cluster.requests(METADATA))
        cluster.wait_for(METADATA, before + 5)
        assert not any(future.done() for future in futures)
        cluster.tell_truth()
        assert [future.result(WAIT_S).offset for future in futures] == list(range(20))
    assert cluster.values("t", moved) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("code", [NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH])
@pytest.mark.parametrize(
    "hint",
    [
        {"node": 1, "epoch": 0},
        {"node": 1, "epoch": -1},
        {"node": -1, "epoch": 9},
        {"node": 77, "epoch": 9, "endpoint": False},
    ],
)
def test_a_hint_that_is_old_or_leads_nowhere_is_passed_over(
    new_peer_cluster: PeerClusterFactory, code: int, hint: dict[str, Any]
) -> None:
    """P-H.6 (KIP-951): an epoch that is not newer, no leader, a node that nobody has the address
    of. Metadata tells."""
    cluster = new_peer_cluster(2, {"t": 2})
    partition = partition_of(cluster, 2)
    with quick_producer(cluster.node(1), linger_ms=0) as producer:
        producer.warmup("t")
        before = len(cluster.requests(METADATA))
        rule = cluster.on(PRODUCE).error(code).leader_hint(**hint)
        rule.for_partition("t", partition).times(2)
        assert producer.send("t", b"x", partition=partition).result(WAIT_S).offset == 0
        assert rule.hits == 2
        cluster.wait_for(METADATA, before + 1)
        producer.send("t", b"y", partition=partition).result(WAIT_S)
    assert {each.node_id for each in cluster.batches("t", partition)} == {2}
    assert cluster.values("t", partition) == [b"x", b"y"]


def test_a_hint_at_a_node_that_nobody_knew_is_followed_there(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.6 (KIP-951): its address is in the answer; neither metadata nor a backoff is waited
    for.
    """
    cluster = new_peer_cluster(3, {"t": 2})
    partition = partition_of(cluster, 2)
    address = cluster.node(3).bootstrap_servers.split(":")
    cluster.stop(3)
    with quick_producer(
        cluster.node(1), linger_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000
    ) as producer:
        producer.warmup("t")
        assert producer._metadata.cluster.node(3) is None
        cluster.start_again(3)
        epoch = cluster.move_leader("t", partition, 3, told=False)
        cluster.node(2).on(PRODUCE).error(NOT_LEADER_OR_FOLLOWER).leader_hint(
            3, epoch, host=address[0], port=int(address[1])
        )
        assert producer.send("t", b"x", partition=partition).result(WAIT_S).offset == 0
        cluster.tell_truth()
    assert [each.node_id for each in cluster.batches("t", partition)] == [2, 3]
