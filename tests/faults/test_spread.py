"""Where records without a key go: spread over partitions and brokers (contract P-C.3, P-C.5).

Where chance alone decides, a bound is missed in less than one run of a million.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest

from fastprod.protocol.api_keys import PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

PARTITIONS = 12
NO_LEADER = -1


def records_in(peer: Peer, partitions: int = PARTITIONS) -> list[int]:
    return [len(peer.log("t", each)) for each in range(partitions)]


@pytest.mark.parametrize("adaptive", [True, False])
def test_single_records_are_spread_evenly(new_peer: PeerFactory, adaptive: bool) -> None:
    """P-C.5.5: the sticky limit is reached by each record."""
    peer = new_peer({"t": PARTITIONS}, check="crc")
    count = 6_000
    with quick_producer(
        peer, batch_size=1, partitioner_adaptive_partitioning_enable=adaptive
    ) as producer:
        for number in range(count):
            producer.send("t", b"%d" % number)
        producer.flush(WAIT_S)
    found = records_in(peer)
    assert sum(found) == count
    # 500 each, with a standard deviation of 21; adaptive, the queues of the moment weigh more.
    least, most = (100, 2_000) if adaptive else (350, 650)
    assert min(found) > least, found
    assert max(found) < most, found


def test_records_stick_to_a_partition_until_its_batch_is_complete(new_peer: PeerFactory) -> None:
    """P-C.5.2, P-C.5.3, P-L.78: few requests although there are many partitions."""
    peer = new_peer({"t": PARTITIONS}, check="crc")
    with quick_producer(peer, linger_ms=60_000, batch_size=4_096) as producer:
        futures = [producer.send("t", bytes(90)) for _ in range(4_000)]
        producer.flush(WAIT_S)
        assert all(future.succeeded() for future in futures)
    sizes = sorted(batch.header.record_count for batch in peer.batches())
    full = sizes[-1]
    assert full >= 38
    # One open batch a partition, and those that left along with a full one of their node.
    assert sum(size >= full - 1 for size in sizes) >= 85, "of 100"
    used = Counter(batch.partition for batch in peer.batches())
    assert len(used) >= 8, "of 100 switches at random"


def test_a_bulk_is_spread_like_single_records(new_peer: PeerFactory) -> None:
    """P-C.5: and each record of it once; by chance alone, not by the queues of the moment."""
    peer = new_peer({"t": PARTITIONS}, check="crc")
    with quick_producer(
        peer, batch_size=200, partitioner_adaptive_partitioning_enable=False
    ) as producer:
        producer.send_many("t", [b"%d" % number for number in range(20_000)]).result(WAIT_S)
    found = records_in(peer)
    assert sum(found) == 20_000
    # 1,667 each in about 100 runs of 17: a standard deviation of 160.
    assert min(found) > 600, found


def test_a_partition_without_a_leader_gets_nothing_while_there_are_others(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-C.5.5, P-L.79 unavailablePartitionsTest; those that name it, or whose key does, wait
    (P-C.3).
    """
    cluster = new_peer_cluster(1, {"t": 4}, check="crc")
    cluster.move_leader("t", 2, NO_LEADER)
    with quick_producer(cluster, batch_size=1) as producer:
        for number in range(1_000):
            producer.send("t", b"%d" % number)
        producer.flush(WAIT_S)
        assert len(cluster.log("t", 2)) == 0
        assert sum(len(cluster.log("t", each)) for each in (0, 1, 3)) == 1_000
        keyed = producer.send("t", b"keyed", key=b"key-2")
        named = producer.send("t", b"named", partition=2)
        cluster.move_leader("t", 2, 1)
        assert named.result(WAIT_S).partition == 2
        keyed.result(WAIT_S)


def test_without_any_leader_records_wait_for_one(new_peer_cluster: PeerClusterFactory) -> None:
    """P-C.5.5: uniform among all then; nothing is lost."""
    cluster = new_peer_cluster(1, {"t": 3}, check="crc")
    for partition in range(3):
        cluster.move_leader("t", partition, NO_LEADER)
    with quick_producer(cluster, batch_size=1) as producer:
        futures = [producer.send("t", b"%d" % number) for number in range(100)]
        for partition in range(3):
            cluster.move_leader("t", partition, 1)
        partitions = {future.result(WAIT_S).partition for future in futures}
    assert partitions == {0, 1, 2}


def test_longer_queues_get_fewer_records(new_peer_cluster: PeerClusterFactory) -> None:
    """P-C.5.6, P-C.5.9: a broker that answers nothing keeps its queue, and the other one's is
    empty.
    """
    cluster = new_peer_cluster(2, {"t": 2}, check="crc")
    slow = cluster.leader_node("t", 0)
    settings: dict[str, Any] = {
        "batch_size": 1,
        "linger_ms": 0,
        "max_in_flight_requests_per_connection": 1,
    }
    with quick_producer(cluster, **settings) as producer:
        for partition in (0, 1):
            producer.send("t", b"warm", partition=partition).result(WAIT_S)
        slow.on(PRODUCE).hold().always()
        for _ in range(20):
            producer.send("t", b"in line", partition=0)
        slow.wait_until_held()
        for number in range(200):
            # One that goes to the slow broker is not done; the next finds a longer queue there.
            with contextlib.suppress(TimeoutError):
                producer.send("t", b"%d" % number).result(0.3)
        fast = len(cluster.log("t", 1)) - 1
        slow.clear_script()
        cluster.release()
    # 1 in 22 or fewer go to the slow one; by chance alone it would be 1 in 2.
    assert fast > 140, fast
    assert sum(len(cluster.log("t", each)) for each in (0, 1)) == 2 + 20 + 200
