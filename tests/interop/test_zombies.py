"""A producer whose transactional id another one has taken is fenced: each time, on both clusters.

Whatever it does next; nothing of it is committed, and the one that took over is not disturbed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.errors import KafkaError, ProducerFencedError
from kafka_cluster import KafkaCluster
from support.processes.scale import scaled
from support.records.readers import read_with_confluent

ZOMBIES = scaled(100, at_least=20)
WAIT_S = 60.0


@pytest.fixture(params=["Apache Kafka", "ours"])
def place(
    request: pytest.FixtureRequest, kafka: KafkaCluster, topic: TopicFactory
) -> Iterator[tuple[str, str]]:
    """Servers, and a topic with two partitions."""
    if request.param == "ours":
        with Broker(brokers=3, topics={"t": 2}, default_replication_factor=3) as broker:
            yield broker.bootstrap_servers, "t"
    else:
        yield kafka.bootstrap_servers, topic(kafka, partitions=2)


def opened(servers: str, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
    producer.init_transactions(WAIT_S)
    return producer


def commits(number: int) -> bool:
    """How a zombie ends its transaction: by a commit, or by an abort."""
    return number % 4 < 2


def go_on(zombie: KafkaProducer, topic: str, number: int) -> None:
    """What a producer does that does not know yet; the way differs, and its end is an error."""
    has_begun = number % 5 != 4
    if not has_begun:
        zombie.begin_transaction()
    if number % 2:
        zombie.send(topic, b"zombie %d" % number, partition=number % 2)
    if number % 3 == 1 or not has_begun:
        zombie.send_offsets_to_transaction({(topic, 0): number + 1}, "zombies", WAIT_S)
    if commits(number):
        zombie.commit_transaction(WAIT_S)
    else:
        zombie.abort_transaction(WAIT_S)


@pytest.mark.kafka
def test_every_zombie_is_fenced(place: tuple[str, str]) -> None:
    """P-I.4, P-I.6, B-E4: the errors lead to ProducerFencedError, which is for good."""
    servers, topic = place
    transactional_id = f"zombies-{uuid.uuid4().hex[:8]}"
    committed: list[bytes] = []
    first_told: dict[str, int] = {}
    producer = opened(servers, transactional_id)
    for number in range(ZOMBIES):
        zombie = producer
        if number % 5 != 4:
            zombie.begin_transaction()
            zombie.send(topic, b"open %d" % number, partition=number % 2)
            if number % 2 or not commits(number):
                zombie.flush(WAIT_S)  # who has sent nothing may abort without asking anybody
        producer = opened(servers, transactional_id)
        with pytest.raises(KafkaError) as caught:
            go_on(zombie, topic, number)
        name = type(caught.value).__name__
        first_told[name] = first_told.get(name, 0) + 1
        if not caught.value.fatal:
            assert caught.value.abortable
            with pytest.raises(ProducerFencedError):
                zombie.abort_transaction(WAIT_S)
        with pytest.raises(ProducerFencedError):
            zombie.begin_transaction()
        zombie.close(0)
        committed.append(b"alive %d" % number)
        with producer.transaction(WAIT_S):
            producer.send(topic, committed[-1], partition=number % 2)
    producer.close()
    print(f"{ZOMBIES} of {ZOMBIES} are fenced; what they were told first: {first_told}")
    found = read_with_confluent(servers, topic, committed=True)
    assert [each.value for each in found[0]] == committed[::2]
    assert [each.value for each in found[1]] == committed[1::2]
