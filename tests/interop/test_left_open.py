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
from support.chaos.judge import LeftOpen, judge
from support.chaos.request_spotter import INIT_PRODUCER_ID, Spotted
from support.chaos.run import TOPIC, end_what_was_left_open, rows_of

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
        ends = wait_for_left_open(cluster)
        cluster.restart(leaders[partition] - 1)

    end_what_was_left_open(cluster)
    rows = rows_of(cluster, committed=True)
    everything = rows_of(cluster, committed=False)
    stored = {(n, at): value for n, each in everything.items() for at, value in each}
    assert sorted(rows) == [index for index in range(NODES) if index != partition]
    assert any("is not there" in each for each in judge([journal], rows))
    assert judge([journal], rows, {"a": LeftOpen(ends, stored)}) == []
    assert list(ends) == [partition]


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


def wait_for_left_open(cluster: ApacheCluster) -> dict[int, int]:
    """How many ends Kafka has left open, by partition: one at least."""
    deadline_s = time.monotonic() + WAIT_S
    while not (found := cluster.left_open):
        assert time.monotonic() < deadline_s, "Kafka has left none open"
        time.sleep(0.1)
    return {each.partition: count for each, count in found.items()}
