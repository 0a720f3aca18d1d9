"""Topics that are not there, must not be used, come, go and change while records are sent."""

from __future__ import annotations

import threading
import time

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    DeliveryTimeoutError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    UnknownTopicOrPartitionError,
)
from fastprod.protocol.api_keys import METADATA
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29
NO_LEADER = -1
IDLE_MS = 60


def send_later(producer: KafkaProducer, topic: str, partition: int | None = None) -> list[object]:
    """Send in a thread that is joined by `.join` of the list's first item; then the outcome."""
    found: list[object] = []

    def send() -> None:
        try:
            found.append(producer.send(topic, b"late", partition=partition).result(WAIT_S))
        except KafkaError as error:
            found.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    found.append(thread)
    return found


def asked_for(peer: Peer, topic: str) -> int:
    """Metadata requests that name a topic."""
    return sum(
        any(each.name == topic for each in request.message.topics or ())
        for request in peer.requests(METADATA)
    )


def test_an_unknown_topic_is_named_with_the_brokers_error(peer: Peer) -> None:
    """P-A.4.5, P-L.14, P-L.16: unknown topic, auto-create off."""
    with quick_producer(peer, max_block_ms=300) as producer:
        producer.warmup("t", timeout=WAIT_S)
        assert producer.try_send("nowhere", b"x").failed(), "that asks for the topic"
        peer.wait_until(lambda: asked_for(peer, "nowhere") > 1, WAIT_S, "its first answer read")
        error = producer.send("nowhere", b"x").exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert (error.topic, error.waited_ms) == ("nowhere", 300)
        assert isinstance(error.__cause__, UnknownTopicOrPartitionError)
        text = str(error)
        assert "Topic nowhere not present in metadata after 300 ms." in text
        assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in text
        assert "max_block_ms" in text
        with pytest.raises(MetadataTimeoutError, match="nowhere") as caught:
            producer.partitions_for("nowhere")
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_a_topic_that_is_made_while_its_sender_waits_is_found(peer: Peer) -> None:
    """P-A.4.4, P-H.6: unknown topic, then created."""
    with quick_producer(peer) as producer:
        thread, *_ = found = send_later(producer, "new")
        peer.wait_until(lambda: asked_for(peer, "new") >= 2)
        peer.add_topic("new")
        assert isinstance(thread, threading.Thread)
        thread.join(WAIT_S)
    assert not isinstance(found[1], KafkaError)
    assert peer.values("new", 0) == [b"late"]


@pytest.mark.parametrize("name", ["\ud800", "a\udcffb", "", "x" * 250])
def test_a_name_that_no_broker_can_be_asked_for_spoils_nothing(peer: Peer, name: str) -> None:
    """P-A.4.6: the producer goes on with other topics."""
    with quick_producer(peer) as producer:
        error = producer.send(name, b"x").exception(WAIT_S)
        assert isinstance(error, InvalidTopicError)
        assert str(error).isprintable()
        with pytest.raises(InvalidTopicError):
            producer.partitions_for(name)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_a_topic_made_again_with_fewer_partitions_gets_its_records_there(
    new_peer: PeerFactory,
) -> None:
    """P-H.4.2, P-J.3.4: keys go by the new number of partitions, and none to those that are
    gone.
    """
    peer = new_peer({"t": 8})
    with quick_producer(peer, max_block_ms=2_000) as producer:
        producer.warmup("t", timeout=WAIT_S)
        for partition in range(8):
            producer.send("t", b"old", partition=partition).result(WAIT_S)
        peer.delete_topic("t")
        waiting = producer.send("t", b"waiting", partition=0)
        peer.wait_until(lambda: asked_for(peer, "t") >= 3)
        peer.add_topic("t", 2)
        waiting.result(WAIT_S)
        for number in range(20):
            assert producer.send("t", b"new", key=b"%d" % number).result(WAIT_S).partition < 2
            assert producer.send("t", b"new").result(WAIT_S).partition < 2
        error = producer.send("t", b"x", partition=7).exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert (error.partition, error.partition_count) == (7, 2)
        bulk = producer.send_many("t", [b"new"] * 20, keys=[b"%d" % n for n in range(20)])
        assert bulk.result(WAIT_S).record_count == 20
    assert len(peer.log("t", 0)) + len(peer.log("t", 1)) == 1 + 40 + 20


def test_records_for_a_topic_that_was_deleted_expire_and_the_error_says_so(peer: Peer) -> None:
    """P-F.4 (UNKNOWN_TOPIC_OR_PARTITION: retries until the delivery timeout), P-D.8.2, P-D.10.4."""
    with quick_producer(
        peer, request_timeout_ms=1_500, delivery_timeout_ms=2_000, max_block_ms=200
    ) as producer:
        producer.warmup("t", timeout=WAIT_S)
        producer.send("t", b"x", partition=1).result(WAIT_S)
        peer.delete_topic("t")
        error = producer.send("t", b"x", partition=1).exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert error.attempts > 1
        assert "UNKNOWN_TOPIC" in error.reason
        assert error.reason in str(error)


@pytest.mark.parametrize("is_listed", [True, False])
def test_records_that_wait_longer_than_metadata_keeps_their_topic_are_delivered(
    new_peer_cluster: PeerClusterFactory, is_listed: bool
) -> None:
    """P-H.3, P-D.5.1: idle topics leave the metadata, and these have no leader, or one that is down
    and named all the while; each is asked for again as long as it has records."""
    cluster = new_peer_cluster(2, {"a": 2, "b": 2, "c": 2})
    with quick_producer(
        cluster.node(1),
        linger_ms=0,
        metadata_max_age_ms=20,
        delivery_timeout_ms=6_000,
        request_timeout_ms=1_000,
    ) as producer:
        producer._metadata._followed.max_idle_ms = IDLE_MS
        if is_listed:
            cluster.node(2).refuse_connections()
            cluster.node(2).close_all()
        for topic in "abc":
            if not is_listed:
                cluster.move_leader(topic, 1, NO_LEADER)
        waiting = [producer.send(topic, b"waits", partition=1) for topic in "abc"]
        idle_at_s = time.monotonic() + 2 * IDLE_MS / 1000
        cluster.wait_until(lambda: time.monotonic() > idle_at_s, WAIT_S, "idle long enough")
        before = len(cluster.requests(METADATA))
        cluster.wait_for(METADATA, before + 3)
        for topic in "abc":
            cluster.move_leader(topic, 1, 1)
        assert [future.result(WAIT_S).offset for future in waiting] == [0, 0, 0]
