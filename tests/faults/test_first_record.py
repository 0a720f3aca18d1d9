"""The first record: what is asked for beside what, and in how many round trips (P-A.1.9)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator

import pytest

from fastprod import KafkaProducer
from fastprod.errors import MetadataTimeoutError
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer, PeerCluster
from support.peer.stage import Stage

BARE_ROUND_TRIPS = 2
"""Of a client that knows everything beforehand: it connects, and sends the record."""
MOST_MORE = 4


def hold_all(stage: Stage) -> None:
    for api_key in (API_VERSIONS, METADATA, INIT_PRODUCER_ID, PRODUCE):
        stage.on(api_key).hold().always()


@contextlib.contextmanager
def let_go_after(stage: Stage) -> Iterator[None]:
    """Nothing is held any more when the producer is closed, however the test ends."""
    try:
        yield
    finally:
        stage.clear_script()
        stage.release()


def round_trip(stage: Stage, *api_keys: int) -> set[tuple[int, int]]:
    """These requests are under way together, and no other; then all are answered.

    Returns:
        Node and number of the connections that they came by.
    """
    stage.wait_until_held(len(api_keys))
    held = stage.held
    assert [each.api_key for each in held] == list(api_keys)
    stage.release()
    return {(each.node_id, each.connection) for each in held}


def send_in_thread(
    producer: KafkaProducer, stage: Stage, partition: int = 0
) -> tuple[threading.Thread, list[int]]:
    """Send a record of a topic that is new; returns when metadata is waited for."""
    offsets: list[int] = []

    def send() -> None:
        offsets.append(producer.send("t", b"x", partition=partition).result(WAIT_S).offset)

    schedule = producer._metadata._schedule
    before = schedule.request_version
    sending = threading.Thread(target=send)
    sending.start()
    # The topic is new, and then it is waited for: an answer before that would not be enough.
    stage.wait_until(lambda: schedule.request_version >= before + 2)
    return sending, offsets


def test_a_new_producer_needs_four_round_trips_more_than_a_client_that_knows_all(
    peer: Peer,
) -> None:
    """P-A.1.9, P-F.5.1, P-H.2.8: with defaults. Metadata and the producer id are asked for side by
    side; each connection begins with its own ApiVersions, as Kafka's protocol wants it."""
    hold_all(peer)
    with (
        KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer,
        let_go_after(peer),
    ):
        sending, offsets = send_in_thread(producer, peer)
        connections = [
            round_trip(peer, API_VERSIONS),
            round_trip(peer, METADATA, INIT_PRODUCER_ID),
            round_trip(peer, API_VERSIONS),
            round_trip(peer, PRODUCE),
        ]
        sending.join(WAIT_S)
    assert connections == [{(1, 1)}, {(1, 1)}, {(1, 2)}, {(1, 2)}]
    assert offsets == [0]
    trips = len(connections) + len(peer.connections)  # a connect is one, too
    assert trips - BARE_ROUND_TRIPS <= MOST_MORE


def leader_elsewhere(cluster: PeerCluster) -> None:
    """Node 1 is the bootstrap server, and node 2 leads the one partition of "t"."""
    cluster.move_leader("t", 0, 2)


def test_leaders_of_warm_topics_wait_for_no_producer_id(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-A.1.9: nor does it wait for them; then the first record is one round trip."""
    cluster = new_peer_cluster(2, {"t": 1})
    leader_elsewhere(cluster)
    hold_all(cluster)
    door = cluster.node(1)
    with quick_producer(door, warmup_topics=["t"]) as producer, let_go_after(cluster):
        round_trip(cluster, API_VERSIONS)
        cluster.wait_until_held(2)
        assert [each.api_key for each in cluster.held] == [METADATA, INIT_PRODUCER_ID]
        cluster.release(1)
        assert round_trip(cluster, INIT_PRODUCER_ID, API_VERSIONS) == {(1, 1), (2, 1)}
        producer.warmup("t", timeout=WAIT_S)
        future = producer.try_send("t", b"x")
        assert round_trip(cluster, PRODUCE) == {(2, 1)}
        assert future.result(WAIT_S).offset == 0
    asked = [each.api_key for each in cluster.requests()]
    assert asked == [API_VERSIONS, METADATA, INIT_PRODUCER_ID, API_VERSIONS, PRODUCE]


def test_a_warm_leader_that_cannot_be_reached_is_left_to_the_first_record(
    new_peer_cluster: PeerClusterFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """P-A.1.9: it is logged, once."""
    cluster = new_peer_cluster(2, {"t": 1})
    leader_elsewhere(cluster)
    cluster.node(2).refuse_connections()
    with (
        caplog.at_level(logging.WARNING),
        quick_producer(cluster.node(1), warmup_topics=["t"]) as producer,
    ):
        cluster.wait_until(lambda: "Connection refused" in caplog.text)
        cluster.wait_for(METADATA, 2)  # a lost leader may have moved
        assert caplog.text.count("Connection refused") == 1
        cluster.node(2).accept_connections()
        assert producer.send("t", b"x").result(WAIT_S).offset == 0


def test_a_warm_topic_that_is_not_there_yet_is_waited_for(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """P-A.1.9: one line of the log, and no error of the constructor."""
    peer = new_peer({"t": 1})
    with caplog.at_level(logging.WARNING), quick_producer(peer, warmup_topics="later") as producer:
        peer.wait_for(METADATA, 4)
        peer.add_topic("later")
        peer.wait_until(lambda: len(peer.connections) == 2)
        assert producer.send("later", b"x").result(WAIT_S).offset == 0
    assert caplog.text.count("UNKNOWN_TOPIC_OR_PARTITION") == 1


def test_warm_topics_of_transactions_are_connected_to_without_a_producer_id(peer: Peer) -> None:
    """P-A.1.9, P-I: init_transactions asks for that."""
    with quick_producer(peer, warmup_topics=["t"], transactional_id="x"):
        peer.wait_for(API_VERSIONS, 2)
        assert peer.requests(INIT_PRODUCER_ID) == []


def test_nobody_answers_and_the_constructor_returns_all_the_same(peer: Peer) -> None:
    """P-A.1.5, P-A.1.9."""
    peer.hang_connections()
    with quick_producer(peer, warmup_topics=["t"], max_block_ms=0) as producer:
        assert isinstance(producer.send("t", b"x").exception(0), MetadataTimeoutError)


@EVERY_LOOP
def test_an_awaited_producer_has_warm_topics_too(peer: Peer, run: Run) -> None:
    """P-A.1.9: `send_nowait` takes records of a topic that nobody has waited for."""

    async def main() -> None:
        async with quick_async_producer(peer, warmup_topics=["t"]) as producer:
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        found = await producer.send_nowait("t", b"x", partition=0)
                    except MetadataTimeoutError:
                        await asyncio.sleep(0.005)
                    else:
                        break
                assert found.offset == 0

    run(main())


def test_before_a_broker_is_connected_the_bootstrap_server_tells_of_new_topics(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-H.2.10: the first record of a producer that was made long ago takes four round trips, not
    six."""
    cluster = new_peer_cluster(3, {"t": 1})
    leader_elsewhere(cluster)
    with quick_producer(cluster.node(1)) as producer, let_go_after(cluster):
        cluster.wait_until(
            lambda: producer._engine.has_producer_id and not producer._metadata.cluster.is_bootstrap
        )
        hold_all(cluster)
        sending, offsets = send_in_thread(producer, cluster)
        assert round_trip(cluster, METADATA) == {(1, 1)}
        assert round_trip(cluster, API_VERSIONS) == {(2, 1)}
        assert round_trip(cluster, PRODUCE) == {(2, 1)}
        sending.join(WAIT_S)
    assert offsets == [0]
    assert [len(each.connections) for each in cluster.nodes] == [1, 1, 0]
