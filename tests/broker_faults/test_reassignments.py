"""Partitions come to other nodes, back and forth, under load, while nodes are killed."""

from __future__ import annotations

import contextlib
import random
import time
from functools import partial
from pathlib import Path

import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import TopicError
from support.broker.world import wait_for

NODES, PARTITIONS = 4, 3
TURNS, RECORDS_A_TURN = 40, 30


def disturb(broker: Broker, chosen: random.Random) -> None:
    """Begin or cancel a reassignment; kill a node, or let one come back; at most one is down."""
    cluster = broker._running().cluster
    partition = broker._running().topics.partition("t", chosen.randrange(PARTITIONS))
    assert partition is not None
    what = chosen.random()
    down = [node for node in broker.nodes if not node.is_up]
    if what < 0.5:
        cluster.reassign(partition, chosen.sample(range(NODES), chosen.choice((2, 3))))
    elif what < 0.65:
        # There may be none, or none of the nodes of before is in sync.
        with contextlib.suppress(TopicError):
            cluster.cancel_reassignment(partition)
    elif down:
        down[0].up()
    else:
        node = broker.nodes[chosen.randrange(NODES)]
        node.kill() if what < 0.85 else node.down()


def broker_in(folder: Path) -> Broker:
    return Broker(
        brokers=NODES, data_dir=folder, min_insync_replicas=2, replica_lag_time_max_ms=500
    )


def is_on(partition: Partition | None, *nodes: int) -> bool:
    assert partition is not None
    return partition.replicas == list(nodes)


def stored(broker: Broker) -> dict[int, list[bytes | None]]:
    return {at: [each.value for each in broker.records("t", at)] for at in range(PARTITIONS)}


def folders(data_dir: Path) -> set[tuple[int, str]]:
    """Which nodes have files of which partitions."""
    return {
        (int(each.parent.name.partition("@")[2] or 0), each.name)
        for home in (data_dir, *data_dir.glob("node@*"))
        for each in home.glob("t-?")
    }


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_twice_while_partitions_move(seed: int, tmp_path: Path) -> None:
    """B-D4.12, B-B2: and each partition ends where it was sent last, with no files elsewhere."""
    chosen = random.Random(seed)
    sent: dict[int, list[bytes | None]] = {at: [] for at in range(PARTITIONS)}
    futures = []
    with broker_in(tmp_path) as broker:
        broker.create_topic("t", PARTITIONS, replication_factor=3)
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for turn in range(TURNS):
                for number in range(RECORDS_A_TURN):
                    at, value = number % PARTITIONS, b"%d-%d" % (turn, number)
                    futures.append(producer.send("t", value, partition=at))
                    sent[at].append(value)
                disturb(broker, chosen)
                time.sleep(0.01)
            for node in broker.nodes:
                node.up()
            for at in range(PARTITIONS):
                found = broker._running().topics.partition("t", at)
                assert found is not None
                broker._running().cluster.reassign(found, [at, at + 1])
                wait_for(partial(is_on, found, at, at + 1))
            producer.flush(timeout=60)
        assert {str(each.exception(0)) for each in futures} == {"None"}
        assert stored(broker) == sent
        expected = {(at + n, f"t-{at}") for at in range(PARTITIONS) for n in (0, 1)}
        wait_for(lambda: folders(tmp_path) == expected)
    with broker_in(tmp_path) as broker:
        assert stored(broker) == sent
        assert [broker.leader("t", at) for at in range(PARTITIONS)] == [0, 1, 2]
