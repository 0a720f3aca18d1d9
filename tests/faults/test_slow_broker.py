"""Brokers that are slow, throttle, or share no version with us (contract P-C.5.7, P-G.8, P-F.4.1).

P-L.61, P-L.88 and P-L.130, through the public API.
"""

from __future__ import annotations

import pytest

from fastprod import KafkaProducer
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 30.0
# Enough that by chance alone the slow broker, at one in the number that waits for it, is not left
# out so often in a row.
MOST_SENDS = 300
IN_A_ROW = 150
SLOW_S = 1.5
SLACK_S = 0.02


def longest_run_of_fast_records(producer: KafkaProducer) -> int:
    """Send records one by one until enough of them were delivered at once."""
    run = longest = 0
    for number in range(MOST_SENDS):
        try:
            producer.send("t", b"%d" % number).result(SLOW_S)
            run += 1
        except TimeoutError:
            run = 0
        longest = max(longest, run)
        if longest == IN_A_ROW:
            break
    return longest


@pytest.mark.parametrize("state", ["hangs", "throttles"])
def test_records_without_a_key_leave_out_a_broker_that_takes_nothing(
    new_peer_cluster: PeerClusterFactory, state: str
) -> None:
    """P-L.61, P-L.88 testNodeLatencyStats, P-C.5.7: although it is connected; as many requests as
    may be are under way to it, or it asked for a pause. Weighed by the queues alone (P-C.5.6) it
    would go on getting one record in as many as wait for it."""
    cluster = new_peer_cluster(2, {"t": 2}, check="crc")
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        linger_ms=0,
        batch_size=1,
        partitioner_availability_timeout_ms=100,
    ) as producer:
        slow = cluster.leader_node("t", 1)
        for partition in (0, 1):
            producer.send("t", b"warm", partition=partition).result(BOUND_S)
        if state == "hangs":
            slow.on(PRODUCE).hold().always()
        else:
            slow.on(PRODUCE).throttle(60_000)
            producer.send("t", b"now a pause", partition=1).result(BOUND_S)
        for number in range(8):
            producer.send("t", b"%d" % number, partition=1)
        try:
            assert longest_run_of_fast_records(producer) >= IN_A_ROW
        finally:
            slow.clear_script()
            cluster.release()
            slow.close_all()  # a new connection knows of no pause


def test_a_throttled_broker_gets_nothing_until_its_time_is_over(peer: Peer) -> None:
    """P-G.8, P-L.130."""
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers, linger_ms=0) as producer:
        producer.send("t", b"0", partition=0).result(BOUND_S)
        peer.on(PRODUCE).throttle(300)
        producer.send("t", b"1", partition=0).result(BOUND_S)
        assert producer.send("t", b"2", partition=1).result(BOUND_S).offset == 0
        assert producer._engine.counters()["throttle_ms"] == 300
    _, throttled, following = peer.requests(PRODUCE)
    assert following.received_s - throttled.received_s >= 0.3 - SLACK_S


def test_without_a_common_version_records_fail(new_peer: PeerFactory) -> None:
    """P-F.4.1: no request can be made of them; they do not wait for their timeout."""
    peer = new_peer({"t": 1}, versions={PRODUCE: (20, 21)})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers, linger_ms=0) as producer:
        error = producer.send("t", b"x", partition=0).exception(BOUND_S)
        assert isinstance(error, KafkaError)
    assert peer.requests(PRODUCE) == []
