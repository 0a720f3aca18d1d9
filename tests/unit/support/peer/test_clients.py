"""Other people's producers take a peer for a broker; nothing of fastprod's client is in play."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Producer
from kafka import KafkaProducer

from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.partition_log import LoggedRecord
from support.peer.scripted_peer import Peer, PeerCluster

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
VALUES = [b"value %d" % number * 20 for number in range(50)]
EXPECTED = [
    LoggedRecord(number, 1000 + number, b"k", value, (("h", b"x"),))
    for number, value in enumerate(VALUES)
]


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_writes_to_a_peer(peer: Peer, codec: str | None) -> None:
    producer = KafkaProducer(bootstrap_servers=peer.bootstrap_servers, compression_type=codec)
    for number, value in enumerate(VALUES):
        producer.send("t", value, b"k", [("h", b"x")], 1, 1000 + number)
    producer.flush(timeout=10)
    producer.close(timeout=5)
    assert peer.log("t", 1) == EXPECTED
    assert {batch.error_code for batch in peer.batches("t")} == {0}


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_writes_to_a_peer(peer: Peer, codec: str | None) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=peer.bootstrap_servers,
            compression_type=codec,
            enable_idempotence=True,
        ) as producer:
            for number, value in enumerate(VALUES):
                await producer.send("t", value, b"k", 1, 1000 + number, [("h", b"x")])

    asyncio.run(write())
    assert peer.log("t", 1) == EXPECTED


def confluent_producer(bootstrap_servers: str, **settings: str | bool) -> Producer:
    return Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0, **settings})


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_writes_to_a_peer(peer: Peer, codec: str | None) -> None:
    settings: dict[str, str | bool] = {"enable.idempotence": True}
    settings["compression.type"] = codec or "none"
    producer = confluent_producer(peer.bootstrap_servers, **settings)
    for number, value in enumerate(VALUES):
        producer.produce("t", value, b"k", 1, timestamp=1000 + number, headers=[("h", b"x")])
    assert producer.flush(10) == 0
    assert peer.log("t", 1) == EXPECTED
    assert {batch.header.codec for batch in peer.batches()} == {CODECS.index(codec)}


def test_confluent_finds_every_leader_of_a_cluster_and_follows_one_that_moves(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    cluster: PeerCluster = new_peer_cluster(2, {"t": 2})
    first = cluster.node(1)
    producer = confluent_producer(cluster.bootstrap_servers, **{"enable.idempotence": True})
    producer.produce("t", b"1", partition=0)
    producer.produce("t", b"1", partition=1)
    assert producer.flush(10) == 0
    # Not told at once: a refresh of the metadata may be under way, and nobody would be asked twice.
    cluster.move_leader("t", 0, to=2, told=False)
    producer.produce("t", b"2", partition=0)
    producer.produce("t", b"2", partition=1)
    cluster.wait_until(lambda: 6 in [batch.error_code for batch in first.batches("t", 0)])
    cluster.tell_truth()
    assert producer.flush(10) == 0
    assert [cluster.values("t", index) for index in (0, 1)] == [[b"1", b"2"]] * 2
    assert cluster.node(2).batches("t", 0)[-1].is_appended


def test_a_transaction_of_confluent_is_seen_to_commit_and_to_abort(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    producer = confluent_producer(peer.bootstrap_servers, **{"transactional.id": "id"})
    producer.init_transactions(10)
    for value, end in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush(10)
        end(10)
    assert peer.values("t", 0) == [b"1", b"2"]
    assert [record.value for record in peer.log("t", 0, committed=True)] == [b"1"]
    assert [ended.committed for ended in peer.ended_transactions] == [True, False]


def test_kafka_python_writes_once_although_the_first_reply_is_lost(peer: Peer) -> None:
    peer.on(PRODUCE).close_after_append().once()
    producer = KafkaProducer(bootstrap_servers=peer.bootstrap_servers)
    assert producer.send("t", b"v", partition=0).get(timeout=10).offset == 0
    producer.close(timeout=5)
    assert peer.values("t", 0) == [b"v"]
    assert [batch.is_duplicate for batch in peer.batches()] == [False, True]
