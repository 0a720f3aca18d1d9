"""What a producer knows of topics, as users see it (contract P-A.5, P-H.3): against a peer."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Any

import pytest

from fastprod import KafkaProducer, PartitionInfo, ProducerRecord
from fastprod.errors import ProducerClosedError, TopicAuthorizationError
from fastprod.protocol.api_keys import METADATA
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory
from support.peer.scripted_peer import Peer

TOPIC_AUTHORIZATION_FAILED = 29
REBOOTSTRAP_REQUIRED = 129
IDLE_MS = 60
NO_LEADER = -1


class Topics(str, enum.Enum):  # noqa: UP042
    """As applications list theirs; `str` of a member is its own name, and not the topic's."""

    FIRST = "t"


def test_partitions_for_names_leaders_and_raises_errors(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-A.5.1."""
    cluster = new_peer_cluster(nodes=2, topics={"t": 3, "secret": 1})
    cluster.set_topic_error("secret", TOPIC_AUTHORIZATION_FAILED)
    producer = quick_producer(cluster)
    with producer:
        found = producer.partitions_for("t")
        assert all(isinstance(each, PartitionInfo) for each in found)
        assert [(each.topic, each.partition) for each in found] == [("t", n) for n in range(3)]
        for each in found:
            assert each.leader is not None
            node = cluster.leader_node("t", each.partition)
            assert (each.leader.id, each.leader.port) == (node.node_id, node.port)
            assert each.leader in each.replicas
            assert each.leader in each.in_sync_replicas
            assert each.offline_replicas == ()
        with pytest.raises(TopicAuthorizationError):
            producer.partitions_for("secret")
        with pytest.raises(TypeError):
            producer.partitions_for(None)  # type: ignore[arg-type]
    with pytest.raises(ProducerClosedError):
        producer.partitions_for("t")


def test_partitions_for_a_name_that_is_more_than_text_have_its_text(peer: Peer) -> None:
    with quick_producer(peer) as producer:
        found = producer.partitions_for(Topics.FIRST)
        assert {type(each.topic) for each in found} == {str}


@pytest.mark.parametrize(
    "send",
    [
        lambda producer, topic: producer.send(topic, b"v"),
        lambda producer, topic: producer.try_send(topic, b"v"),
        lambda producer, topic: producer.send(ProducerRecord(topic, b"v")),
        lambda producer, topic: producer.send_many(topic, [b"v"]),
    ],
    ids=["send", "try_send", "a record", "send_many"],
)
@pytest.mark.parametrize("plug_in", [None, bytes], ids=["native", "plug-in"])
def test_a_name_that_is_more_than_text_is_its_text(
    send: Callable[[KafkaProducer, str], Any], plug_in: Any, peer: Peer
) -> None:
    """P-A.3: the record goes to no topic that nobody has named."""
    with quick_producer(peer, value_serializer=plug_in) as producer:
        producer.warmup("t")
        found = send(producer, Topics.FIRST).result(WAIT_S)
        assert (type(found.topic), found.topic) == (str, "t")


def test_names_of_columns_that_are_more_than_text_are_their_text(peer: Peer) -> None:
    """P-A.3, P-A.3.5."""
    with quick_producer(peer) as producer:
        headers: dict[str, bytes] = {Topics.FIRST: b"h"}
        bulk = producer.append_columns(topic=Topics.FIRST, values=[b"v"], header_columns=headers)
        assert bulk.result(WAIT_S).topic == "t"
    (record,) = [each for n in range(3) for batch in peer.batches("t", n) for each in batch.records]
    assert record.headers == (("t", b"h"),)


def test_an_idle_topic_leaves_metadata_and_the_next_record_brings_it_back(peer: Peer) -> None:
    """P-L.87 testMetadataTopicExpiry, P-A.4.2, P-H.3."""
    with quick_producer(peer, metadata_max_age_ms=20) as producer:
        metadata = producer._metadata
        metadata._followed.max_idle_ms = IDLE_MS
        for number in range(3):
            assert producer.send("t", b"v", partition=0).result(WAIT_S).offset == number
            peer.wait_until(lambda: not metadata.topics, WAIT_S, "the topic dropped")
            assert metadata.cluster.topics == frozenset()
    asked = [request.message.topics for request in peer.requests(METADATA)]
    assert sum(bool(topics) for topics in asked) >= 3


def test_what_is_queued_survives_a_new_start_at_the_bootstrap_servers(peer: Peer) -> None:
    """P-H.5.3, P-H.5.5."""
    with quick_producer(peer, linger_ms=60_000, metadata_max_age_ms=50) as producer:
        producer.warmup("t")
        future = producer.send("t", b"v", partition=0)
        before = len(peer.connections)
        peer.on(METADATA).answer(error_code=REBOOTSTRAP_REQUIRED, brokers=[]).once()
        peer.wait_until(lambda: len(peer.connections) > before, WAIT_S, "a new start")
        assert not future.done()
        producer.flush(WAIT_S)
        assert future.result(0).offset == 0
    assert peer.values("t", 0) == [b"v"]


def test_a_topic_forgotten_after_an_outage_can_be_sent_to(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.3, P-H.5.2: idle for too long, without a leader in the last answer before every broker
    went down; they came back with another one, and the next record asks for the topic again."""
    cluster = new_peer_cluster(nodes=2, topics={"t": 1})
    cluster.move_leader("t", 0, NO_LEADER)
    with quick_producer(
        cluster,
        linger_ms=0,
        request_timeout_ms=10_000,
        delivery_timeout_ms=12_000,
        # Between two attempts there is time to see that no broker can be asked.
        reconnect_backoff_ms=200,
        reconnect_backoff_max_ms=200,
        metadata_recovery_rebootstrap_trigger_ms=500,
    ) as producer:
        metadata = producer._metadata
        metadata._followed.max_idle_ms = IDLE_MS
        (found,) = producer.partitions_for("t")
        assert found.leader is None
        idle_at_s = time.monotonic() + IDLE_MS / 1000
        for node in (1, 2):
            cluster.stop(node)
        cluster.wait_until(lambda: metadata.cluster.is_bootstrap, WAIT_S, "a new start")
        cluster.wait_until(lambda: time.monotonic() > idle_at_s, WAIT_S, "idle long enough")
        for node in (1, 2):
            cluster.start_again(node)
        cluster.move_leader("t", 0, 2)
        cluster.wait_until(lambda: not metadata.topics, WAIT_S, "the topic dropped")
        assert producer.send("t", b"v").result(WAIT_S).offset == 0
    assert cluster.values("t", 0) == [b"v"]


def test_a_topic_that_goes_while_its_sender_wakes_is_asked_for_by_the_next_send(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-H.3: what callers take for known is what the latest answer left, not what they waited
    for.
    """
    with quick_producer(peer) as producer:
        metadata = producer._metadata
        wait_for_topic = metadata.wait_for_topic
        waits: list[str] = []

        def wait_and_lose(topic: str, partition: int | None, timeout_ms: int) -> int:
            waited_ms = wait_for_topic(topic, partition, timeout_ms)
            producer._events.topics_changed(frozenset(), frozenset([topic]))
            waits.append(topic)
            return waited_ms

        monkeypatch.setattr(metadata, "wait_for_topic", wait_and_lose)
        for number in range(3):
            assert producer.send("t", b"v", partition=0).result(WAIT_S).offset == number
        assert waits == ["t"] * 3
        assert not producer._knows("t", None)
