"""Brokers that want to be left alone for a while (KIP-219, contract P-G.8)."""

from __future__ import annotations

import threading

import pytest

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory
from support.peer.journal import Request
from support.peer.scripted_peer import Peer

THROTTLE_MS = 2_000
SLACK_S = 0.02


def is_throttled(producer: KafkaProducer) -> bool:
    return any(producer._engine.is_throttled(slot) for slot in range(4))


@pytest.mark.parametrize("api_key", [API_VERSIONS, METADATA])
def test_after_a_control_answer_nothing_is_sent_until_the_time_is_over(
    peer: Peer, api_key: int
) -> None:
    """P-G.8: neither records nor requests of its own kind."""
    rule = peer.on(api_key).on_connection(2).after(0 if api_key == API_VERSIONS else 1)
    rule.throttle(THROTTLE_MS)
    with quick_producer(peer, linger_ms=0, metadata_max_age_ms=40) as producer:
        producer.partitions_for("t")
        producer._network_client.warm(1)
        peer.wait_until(lambda: is_throttled(producer), WAIT_S)
        seen = [each for each in peer.requests(api_key) if each.connection == 2]
        throttled = seen[0 if api_key == API_VERSIONS else 1]
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0

        def later() -> list[Request]:
            return [each for each in peer.requests() if each.arrival > throttled.arrival]

        peer.wait_until(lambda: {METADATA, PRODUCE} <= {each.api_key for each in later()}, WAIT_S)
    assert rule.hits == 1
    assert later()[0].received_s - throttled.received_s >= THROTTLE_MS / 1000 - SLACK_S
    assert {each.connection for each in later()} == {throttled.connection}


def test_after_a_produce_answer_metadata_goes_to_somebody_else(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-G.6, P-G.8: the control thread knows of the pause that the I/O thread was asked for."""
    cluster = new_peer_cluster(2, {"t": 2})
    with quick_producer(cluster, linger_ms=0) as producer:
        for partition in (0, 1):
            producer.send("t", b"x", partition=partition).result(WAIT_S)
        quiet = cluster.leader_node("t", 0)
        quiet.on(PRODUCE).throttle(60_000)
        producer.send("t", b"y", partition=0).result(WAIT_S)
        before = len(quiet.requests())
        for number in range(10):
            cluster.add_topic(f"new-{number}")
            assert len(producer.partitions_for(f"new-{number}")) == 1
        assert producer.send("t", b"y", partition=1).result(WAIT_S).offset == 1
        assert len(quiet.requests()) == before
        quiet.close_all()  # a new connection knows of no pause
        assert producer.send("t", b"z", partition=0).result(WAIT_S).offset == 2


def test_the_only_broker_is_asked_for_a_new_topic_when_its_pause_is_over(peer: Peer) -> None:
    """P-G.8: who waits for the topic waits that long, and is served."""
    peer.add_topic("u")
    with quick_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"x", partition=0).result(WAIT_S)
        peer.on(PRODUCE).throttle(THROTTLE_MS)
        producer.send("t", b"y", partition=0).result(WAIT_S)
        throttled = peer.requests(PRODUCE)[-1]
        assert producer.send("u", b"x").result(WAIT_S).offset == 0
    asked = next(each for each in peer.requests(METADATA) if each.arrival > throttled.arrival)
    if asked.connection == throttled.connection:
        assert asked.received_s - throttled.received_s >= THROTTLE_MS / 1000 - SLACK_S


def test_requests_under_way_are_waited_for_that_much_longer(peer: Peer) -> None:
    """P-G.2.4, P-G.8: the pause does not count against request_timeout_ms."""
    with quick_producer(
        peer, linger_ms=0, request_timeout_ms=3_000, delivery_timeout_ms=60_000
    ) as producer:
        producer.warmup("t")
        producer.send("t", b"0", partition=0).result(WAIT_S)
        # The answer with the pause comes while the second request is under way.
        peer.on(PRODUCE).for_partition("t", 0).hold().throttle(10_000)
        peer.on(PRODUCE).for_partition("t", 0).delay(4.0)
        futures = [producer.send("t", b"1", partition=0)]
        peer.wait_until_held()
        futures.append(producer.send("t", b"2", partition=0))
        peer.wait_for(PRODUCE, 3)
        peer.release()
        assert [future.result(WAIT_S).offset for future in futures] == [1, 2]
        assert len(peer.requests(PRODUCE)) == 3, "nothing timed out, nothing was sent again"


def test_old_versions_waited_themselves(peer: Peer) -> None:
    """P-G.8, P-L.167 testThrottlingNotEnabledForConnectionToOlderBroker: Produce up to 5, Metadata
    up to 5; the time that they tell is over."""
    peer.speak(PRODUCE, 0, 5)
    peer.speak(METADATA, 0, 5)
    peer.speak(INIT_PRODUCER_ID, 0, 0)
    peer.speak(API_VERSIONS, 0, 1)
    for api_key in (PRODUCE, METADATA, INIT_PRODUCER_ID, API_VERSIONS):
        peer.on(api_key).throttle(60_000).always()
    with quick_producer(peer, linger_ms=0, max_block_ms=20_000) as producer:
        for number in range(5):
            assert producer.send("t", b"x", partition=0).result(20.0).offset == number
        peer.add_topic("u")
        sending = threading.Thread(target=lambda: producer.send("u", b"x"))
        sending.start()
        sending.join(20.0)
        assert not sending.is_alive()
        peer.wait_for_log("u", 0, 1)
