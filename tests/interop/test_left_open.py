"""Apache Kafka 4.3 leaves a transaction open where a partition has no leader (KAFKA-20734).

It is told as committed, and yet its records there end as the next transaction does. No client can
do anything about it; the judge of the chaos has to know it. When this fails, Kafka has mended it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import kafka_admin
from fastprod import KafkaProducer
from support.chaos.clusters import NODES, ApacheCluster, apache_cluster
from support.chaos.journal import Journal, Told
from support.chaos.judge import judge
from support.chaos.request_spotter import INIT_PRODUCER_ID, Spotted
from support.records.readers import stream_with_confluent

TOPIC = "alone"
WAIT_S = 60.0


@pytest.fixture(params=["before KIP-890", "KIP-890"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ApacheCluster]:
    with apache_cluster(1, is_first_protocol=request.param != "KIP-890") as found:
        found.kafka.create_topic(TOPIC, NODES, replication=1)
        yield found


@pytest.mark.long
def test_a_transaction_ends_as_the_next_one_where_it_had_no_leader(cluster: ApacheCluster) -> None:
    asked: list[int] = []

    def look(node: int, spotted: Spotted) -> None:
        if spotted.api_key == INIT_PRODUCER_ID:
            asked.append(node)

    cluster.proxy.watch(look)
    journal = Journal("a")
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id="one",
        delivery_timeout_ms=60_000,
    ) as producer:
        producer.init_transactions(WAIT_S)
        leaders = leaders_of(cluster)
        partition = next(index for index, leader in leaders.items() if leader != asked[-1] + 1)
        producer.begin_transaction()
        futures = [producer.send(TOPIC, b"a %d " % (n + 1), partition=n) for n in range(NODES)]
        producer.flush(WAIT_S)
        lose_leader(cluster, leaders[partition] - 1, partition)
        producer.commit_transaction(WAIT_S)
        told = [future.result(0) for future in futures]
        journal.committed([Told(b"a %d " % (n + 1), n, each.offset) for n, each in enumerate(told)])
        wait_for_left_open(cluster)
        cluster.restart(leaders[partition] - 1)
        producer.begin_transaction()
        producer.send(TOPIC, b"a 4 ", partition=partition).result(WAIT_S)
        producer.abort_transaction(WAIT_S)
        journal.aborted([b"a 4 "])

    rows: dict[int, list[tuple[int, bytes]]] = {}
    for record in stream_with_confluent(cluster.direct_servers, TOPIC, committed=True):
        assert record.value is not None
        rows.setdefault(record.partition, []).append((record.offset, record.value))

    assert sorted(rows) == [index for index in range(NODES) if index != partition]
    assert any("is not there" in each for each in judge([journal], rows))
    assert judge([journal], rows, {"a": cluster.left_open["one", TOPIC]}) == []


def leaders_of(cluster: ApacheCluster) -> dict[int, int]:
    state = kafka_admin.partitions(cluster.direct_servers, TOPIC)
    return {index: each.leader for index, each in state.items()}


def lose_leader(cluster: ApacheCluster, node: int, partition: int) -> None:
    cluster.kill(node)
    kafka_admin.wait_for_partitions(
        cluster.direct_servers,
        TOPIC,
        lambda seen: partition in seen and seen[partition].leader == -1,
        "no leader",
        WAIT_S,
    )


def wait_for_left_open(cluster: ApacheCluster) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while cluster.left_open != {("one", TOPIC): 1}:
        assert time.monotonic() < deadline_s, f"Kafka has left open {cluster.left_open}"
        time.sleep(0.1)
