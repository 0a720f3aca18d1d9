"""Coordinators of groups and transactions are killed between any two calls of their clients.

What they told a client is known to whoever coordinates next: it has it in its replica's log.

The whole has 60 kills of each kind.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.coordinator.partitioned_state import partition_for
from support.broker.world import wait_for
from support.processes.scale import scaled

KILLS = scaled(60, at_least=3)
PATIENCE_S = 60.0
PER_TRANSACTION = 3


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(
        brokers=3,
        topics={"t": 2},
        default_replication_factor=3,
        min_insync_replicas=2,
        offsets_topic_num_partitions=4,
        transaction_state_log_num_partitions=4,
        request_log_size=0,
    ) as opened:
        yield opened


def kill_coordinator(broker: Broker, topic: str, key: str) -> None:
    """Kill who coordinates `key`, and have the node back, in sync, before this returns."""
    index = partition_for(key, 4)
    leader = broker.leader(topic, index)
    broker.nodes[leader].kill()
    assert broker.leader(topic, index) not in (leader, -1)
    broker.nodes[leader].up()
    wait_for(lambda: len(broker._partition(topic, index).isr) == 3)


MOMENTARY = (
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._WAIT_COORD,
    confluent_kafka.KafkaError.NOT_COORDINATOR,
    confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
)


def insistent(call: Callable[[], Any]) -> Any:
    """Call until it succeeds: clients find the next coordinator, and give up early at times."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except confluent_kafka.KafkaException as error:
            told = error.args[0]
            if not (told.retriable() or told.code() in MOMENTARY) or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def test_an_offset_that_was_committed_is_known_to_the_next_coordinator(broker: Broker) -> None:
    """B-E1, B-E2: a commit, a kill, and another consumer asks; again and again."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "enable.auto.commit": False,
    }
    place = confluent_kafka.TopicPartition("t", 0)
    consumer = confluent_kafka.Consumer(settings)
    other = confluent_kafka.Consumer(settings)
    try:
        for offset in range(1, KILLS + 1):
            place.offset = offset
            wanted = [confluent_kafka.TopicPartition("t", 0, offset)]
            insistent(partial(consumer.commit, offsets=wanted, asynchronous=False))
            kill_coordinator(broker, "__consumer_offsets", "g")
            (found,) = insistent(lambda: other.committed([place], timeout=10))
            assert found.offset == offset
    finally:
        consumer.close()
        other.close()


def test_a_group_goes_on_with_the_next_coordinator(broker: Broker) -> None:
    """B-E1: members of a group read on; no record twice, none left out."""
    count = 20 * KILLS
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("t", b"%d" % number, partition=number % 2)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        consumer.subscribe(["t"])
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count}"
            messages = [each for each in consumer.consume(20, 1.0) if each.error() is None]
            values += [each.value() or b"" for each in messages]
            if messages:
                insistent(lambda: consumer.commit(asynchronous=False))
                if len(values) < count:
                    kill_coordinator(broker, "__consumer_offsets", "g")
    finally:
        consumer.close()
    assert Counter(values) == Counter(b"%d" % number for number in range(count))


class Theirs:
    """confluent-kafka's transactional producer."""

    def __init__(self, broker: Broker) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 0}
        )
        insistent(lambda: self._producer.init_transactions(30))

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes, partition: int) -> None:
        self._producer.produce("t", value, partition=partition)
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        insistent(lambda: self._producer.commit_transaction(30))

    def abort(self) -> None:
        insistent(lambda: self._producer.abort_transaction(30))

    def close(self) -> None:
        self._producer.flush(30)


class Ours:
    """fastprod's."""

    def __init__(self, broker: Broker) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="x", linger_ms=0
        )
        self._producer.init_transactions(timeout=30)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes, partition: int) -> None:
        self._producer.send("t", value, partition=partition).result(30)

    def commit(self) -> None:
        self._producer.commit_transaction(timeout=30)

    def abort(self) -> None:
        self._producer.abort_transaction(timeout=30)

    def close(self) -> None:
        self._producer.close(timeout=30)


def committed(broker: Broker, count: int) -> list[bytes]:
    """What a reader of committed records sees, until there are `count`."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    values: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", index, 0) for index in range(2)])
        while len(values) < count or len(ended) < 2:
            assert time.monotonic() < deadline, f"{len(values)} of {count}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
    finally:
        consumer.close()
    return values


@pytest.mark.parametrize("client", [Ours, Theirs])
def test_a_transaction_goes_on_with_the_next_coordinator(
    broker: Broker, client: type[Ours | Theirs]
) -> None:
    """B-E4: killed after its beginning, within it and after its end, in turn."""
    producer = client(broker)
    wanted: list[bytes] = []
    for number in range(KILLS):
        is_commit = number % 4 != 3
        kill_at = number % (PER_TRANSACTION + 1)
        producer.begin()
        for at in range(PER_TRANSACTION):
            value = b"%d-%d" % (number, at)
            producer.send(value, at % 2)
            if is_commit:
                wanted.append(value)
            if at == kill_at:
                kill_coordinator(broker, "__transaction_state", "x")
        if is_commit:
            producer.commit()
        else:
            producer.abort()
        if kill_at == PER_TRANSACTION:
            kill_coordinator(broker, "__transaction_state", "x")
    producer.close()
    assert Counter(committed(broker, len(wanted))) == Counter(wanted)
