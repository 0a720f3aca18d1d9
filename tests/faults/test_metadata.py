"""Metadata: who asks, for what, how often, and what errors in it mean (P-A.4, P-A.5, P-H)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fastprod import KafkaProducer, Node
from fastprod.client.metadata.metadata import Metadata
from fastprod.errors import (
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    TopicAuthorizationError,
)
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

LEADER_NOT_AVAILABLE = 5
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29
SLOW_S = 10.0


def asked(peer: Peer) -> list[list[str]]:
    """The topics of each metadata request."""
    return [[each.name for each in one.message.topics] for one in peer.requests(METADATA)]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_new_topic_is_asked_for_alone_and_an_old_one_with_all_others(peer: Peer) -> None:
    """P-H.2.2, P-A.4.3: and one that is known is not asked for at all; time and errors refresh
    all.
    """
    for name in ("a", "b", "c"):
        peer.add_topic(name)
    with quick_producer(peer) as producer:
        # Then its control thread sleeps: awake, it might ask amid the steps of a send, and again.
        peer.wait_until(
            lambda: producer._engine.has_producer_id and not producer._metadata.cluster.is_bootstrap
        )
        for name in ("a", "b", "c"):
            before = len(asked(peer))
            producer.send(name, b"x").result(WAIT_S)
            assert asked(peer)[before:] == [[name]]
        before = len(asked(peer))
        for _ in range(10):
            for name in ("a", "b", "c"):
                producer.send(name, b"x").result(WAIT_S)
                assert len(producer.partitions_for(name)) == 1
        assert len(asked(peer)) == before
        peer.on(PRODUCE).error(LEADER_NOT_AVAILABLE)
        producer.send("a", b"x").result(WAIT_S)
        peer.wait_for(METADATA, before + 1)
        assert sorted(asked(peer)[before]) == ["a", "b", "c"]


def test_metadata_of_a_certain_age_is_fetched_without_a_record(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.2.1, P-H.2.9: what changed meanwhile is known before the next record."""
    cluster = new_peer_cluster(2, {"t": 1})
    with quick_producer(cluster, metadata_max_age_ms=50) as producer:
        producer.send("t", b"x").result(WAIT_S)
        old = cluster.leader("t", 0)
        new = 3 - old
        cluster.move_leader("t", 0, new)
        cluster.add_partitions("t", 3)

        def is_known() -> bool:
            found = producer.partitions_for("t")
            return len(found) == 3 and found[0].leader is not None and found[0].leader.id == new

        cluster.wait_until(is_known, WAIT_S)
        assert producer.send("t", b"y", partition=0).result(WAIT_S).offset == 1
    assert [each.node_id for each in cluster.batches("t", 0)] == [old, new]


def test_many_threads_with_a_new_topic_each_are_all_served(peer: Peer) -> None:
    """P-H.2.3, P-H.2.7, P-A.1.7: one request at a time, and nobody is forgotten."""
    names = [f"topic-{number}" for number in range(40)]
    for name in names:
        peer.add_topic(name)
    peer.on(METADATA).delay(0.02).always()
    with quick_producer(peer) as producer:
        found: list[str] = []

        def send(name: str) -> None:
            found.append(producer.send(name, b"x").result(WAIT_S).topic)

        threads = [in_thread(partial(send, name)) for name in names]
        for thread in threads:
            thread.join(WAIT_S)
        assert sorted(found) == sorted(names)
    assert len(asked(peer)) < len(names), "those that come while one is asked for go together"


def test_a_topic_that_we_may_not_see_fails_at_once_and_concerns_nobody_else(peer: Peer) -> None:
    """P-A.4.6, P-H.7.1: and it can be used when the right is there."""
    peer.add_topic("secret")
    peer.set_topic_error("secret", TOPIC_AUTHORIZATION_FAILED)
    with quick_producer(peer) as producer:
        for _ in range(2):
            error = producer.send("secret", b"x").exception(WAIT_S)
            assert isinstance(error, TopicAuthorizationError)
            assert error.topic == "secret"
            assert "TOPIC_AUTHORIZATION_FAILED (29)" in str(error)
            with pytest.raises(TopicAuthorizationError, match="secret"):
                producer.partitions_for("secret")
            assert producer.send("t", b"x", partition=0).result(WAIT_S).offset >= 0
        peer.set_topic_error("secret", 0)
        assert producer.send("secret", b"x").result(WAIT_S).offset == 0


def test_a_name_that_brokers_refuse_fails_without_being_asked_for_again(peer: Peer) -> None:
    """P-A.4.1, P-L.18 testSendToInvalidTopic: until an answer says otherwise."""
    peer.add_topic("bad")
    peer.set_topic_error("bad", INVALID_TOPIC)
    with quick_producer(peer, metadata_max_age_ms=300) as producer:
        error = producer.send("bad", b"x").exception(WAIT_S)
        assert isinstance(error, InvalidTopicError)
        assert "INVALID_TOPIC_EXCEPTION (17)" in str(error)
        at_once = producer.try_send("bad", b"x").exception(0)
        assert isinstance(at_once, InvalidTopicError)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
        peer.set_topic_error("bad", 0)
        peer.wait_until(lambda: producer._metadata.cluster.error_code("bad") == 0, WAIT_S)
        assert producer.send("bad", b"x").result(WAIT_S).offset == 0


def test_a_topic_that_is_just_being_made_is_waited_for(peer: Peer) -> None:
    """P-F.4 (LEADER_NOT_AVAILABLE), P-H.2.6: brokers answer so for a while after creating it."""
    peer.add_topic("young")
    rule = peer.on(METADATA).error(LEADER_NOT_AVAILABLE).for_topic("young").times(5)
    with quick_producer(peer) as producer:
        assert producer.send("young", b"x").result(WAIT_S).offset == 0
    assert rule.hits == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.update(brokers=[]),
        lambda message: message.update(error_code=56),
        lambda message: message.update(topics=[]),
    ],
    ids=["no brokers", "an error", "no topics"],
)
def test_an_answer_that_is_no_help_is_asked_for_again(
    peer: Peer, change: Callable[[dict[str, Any]], None]
) -> None:
    """P-H.2.5, P-L.12 testMetadataFetch: a broker that starts may know of nobody."""
    rule = peer.on(METADATA).change(change).times(4)
    with quick_producer(peer) as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
    assert rule.hits == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda message: message.update(brokers=[]), "names no broker"),
        (lambda message: message.update(error_code=56), "KAFKA_STORAGE_ERROR (56)"),
    ],
)
def test_a_time_out_names_the_broker_whose_answers_were_no_help(
    new_peer: PeerFactory,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[str, Any]], None],
    words: str,
) -> None:
    """P-A.4.5: also if the time is over while the answer is looked at."""
    peer = new_peer({"t": 1})
    recorded: list[str] = []
    record = Metadata.record_failure

    def note(metadata: Metadata, error: BaseException) -> None:
        recorded.append(str(error))
        record(metadata, error)

    monkeypatch.setattr(Metadata, "record_failure", note)
    rule = peer.on(METADATA).change(change).always()
    with quick_producer(peer, max_block_ms=800) as producer:
        rule.wait_for_hits(2)
        error = producer.send("t", b"x").exception(WAIT_S)
        peer.clear_script()
    assert isinstance(error, MetadataTimeoutError)
    assert words in str(error)
    assert f"broker {peer.bootstrap_servers}" in str(error)
    assert all(each.startswith("broker ") for each in recorded), recorded


def test_a_new_topic_does_not_wait_for_the_backoff_of_others(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.2.2, P-H.2.4 (KIP-580): one without a leader is asked for again only after a minute."""
    cluster = new_peer_cluster(1, {"t": 1, "new": 1})
    with quick_producer(
        cluster, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000, max_block_ms=20_000
    ) as producer:
        producer.send("t", b"x").result(WAIT_S)
        cluster.on(PRODUCE).error(LEADER_NOT_AVAILABLE)
        producer.send("t", b"waits")
        cluster.wait_for(PRODUCE, 2)
        assert producer.send("new", b"x").result(SLOW_S).offset == 0
        with pytest.raises(KafkaError, match="1 record"):
            producer.close(0)


def test_a_partition_that_is_added_ends_the_wait_for_it(peer: Peer) -> None:
    """P-A.4.4, P-L.15 testMetadataWithPartitionOutOfRange."""
    with quick_producer(peer, max_block_ms=400) as hasty:
        hasty.warmup("t", timeout=WAIT_S)
        error = hasty.send("t", b"x", partition=3).exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert (error.partition, error.partition_count, error.waited_ms) == (3, 3, 400)
        assert "Partition 3 of topic t with partition count 3 is not present" in str(error)
        assert "from 0 to 2" in str(error)
        assert hasty.send("t", b"x", partition=2).result(WAIT_S).offset == 0
    with quick_producer(peer) as producer:
        producer.warmup("t")
        found: list[int] = []
        sending = in_thread(
            lambda: found.append(producer.send("t", b"x", partition=3).result(WAIT_S).offset)
        )
        before = len(asked(peer))
        peer.wait_for(METADATA, before + 3)
        assert sending.is_alive()
        peer.add_partitions("t", 4)
        sending.join(WAIT_S)
    assert found == [0]


def test_partitions_for_tells_leaders_and_replicas(new_peer_cluster: PeerClusterFactory) -> None:
    """P-A.5.1: those that are down have their id alone."""
    cluster = new_peer_cluster(3, {"t": 2})
    with quick_producer(cluster.node(2)) as producer:
        first, second = producer.partitions_for("t")
        nodes = [Node(each.node_id, "127.0.0.1", each.port, None) for each in cluster.nodes]
        assert (first.topic, first.partition, second.partition) == ("t", 0, 1)
        assert first.leader == nodes[cluster.leader("t", 0) - 1]
        assert second.leader == nodes[cluster.leader("t", 1) - 1]
        assert list(first.replicas) == list(first.in_sync_replicas) == nodes
        assert first.offline_replicas == ()
        with pytest.raises(TypeError):
            producer.partitions_for(None)  # type: ignore[arg-type]
    with pytest.raises(ProducerClosedError):
        producer.partitions_for("t")


def test_without_time_to_wait_known_topics_can_be_sent_to(peer: Peer) -> None:
    """P-A.3.18, P-A.4.3: max_block_ms=0 is enough when nothing has to be waited for."""
    with quick_producer(peer, max_block_ms=0) as producer:
        error = producer.send("t", b"x").exception(0)
        assert isinstance(error, MetadataTimeoutError)
        assert "after 0 ms" in str(error)
        producer.warmup("t", timeout=WAIT_S)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_close_releases_who_waits_and_says_why(peer: Peer) -> None:
    """P-A.4.6, P-A.9.9, P-L.31 testCloseWhenWaitingForMetadataUpdate: raised, also for one of
    several topics."""
    found: list[BaseException] = []
    producer: KafkaProducer = quick_producer(peer)

    def send(name: str) -> None:
        try:
            producer.send(name, b"x")
        except BaseException as error:
            found.append(error)

    threads = [in_thread(partial(send, name)) for name in ("nowhere", "neither")]
    peer.wait_until(
        lambda: {"nowhere", "neither"} <= {name for each in asked(peer) for name in each}
    )
    producer.close()
    for thread in threads:
        thread.join(WAIT_S)
    assert [type(error) for error in found] == [ProducerClosedError] * 2
    assert {str(error) for error in found} == {"Producer closed while send in progress"}
