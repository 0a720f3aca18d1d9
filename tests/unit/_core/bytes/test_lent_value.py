"""Large values on their way through a producer: not copied, kept until the broker has them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import kafka_admin
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.errors import BufferExhaustedError, RecordCancelledError
from support.broker.sockets import until
from support.records.readers import read_with_confluent

TOPIC = "t"
LARGE = 100_000
TIMEOUT_S = 20.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: 1}) as broker:
        yield broker


def new_producer(broker: Broker, **config: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **config)


def large(number: int, size: int = LARGE) -> bytes:
    return number.to_bytes(4, "big") * (size // 4)


def values(broker: Broker, topic: str = TOPIC) -> list[bytes | None]:
    (log,) = read_with_confluent(broker.bootstrap_servers, topic).values()
    return [record.value for record in log]


def test_a_large_value_is_borrowed_until_it_is_acknowledged(broker: Broker) -> None:
    """Whoever sends nothing more has it back soon: the control thread sees to that."""
    value = large(1)
    before = sys.getrefcount(value)
    with new_producer(broker, linger_ms=60_000) as producer:
        producer.warmup(TOPIC)
        future = producer.send(TOPIC, value)
        assert sys.getrefcount(value) == before + 1
        future.result(TIMEOUT_S)
        until(lambda: sys.getrefcount(value) == before, "the reference is given back")
    assert values(broker) == [value]


@pytest.mark.parametrize(
    ("value", "config"),
    [
        (large(1, 32_764), {}),
        (bytearray(large(1)), {}),
        (memoryview(large(1)), {}),
        (type("Bytes", (bytes,), {})(large(1)), {}),
        (large(1), {"compression_type": "lz4"}),
    ],
    ids=["small", "bytearray", "view", "subclass", "compressed"],
)
def test_other_values_are_copied(broker: Broker, value: Any, config: dict[str, Any]) -> None:
    before = sys.getrefcount(value)
    with new_producer(broker, linger_ms=60_000, **config) as producer:
        producer.warmup(TOPIC)
        future = producer.send(TOPIC, value)
        assert sys.getrefcount(value) == before
        future.result(TIMEOUT_S)
    assert values(broker) == [bytes(value)]


def test_what_is_taken_back_is_given_back_and_its_neighbours_arrive(broker: Broker) -> None:
    sent = [large(number) if number % 2 else b"%d" % number for number in range(6)]
    before = [sys.getrefcount(value) for value in sent]
    with new_producer(broker, linger_ms=60_000, batch_size=1_000_000) as producer:
        producer.warmup(TOPIC)
        futures = [producer.send(TOPIC, value, b"k") for value in sent]
        assert futures[1].cancel()
        assert futures[4].cancel()
        producer.flush(TIMEOUT_S)
        with pytest.raises(RecordCancelledError):
            futures[1].result(0)
        del futures
    assert values(broker) == [sent[0], sent[2], sent[3], sent[5]]
    assert [sys.getrefcount(value) for value in sent] == before


def test_a_lost_answer_sends_the_same_bytes_again(broker: Broker) -> None:
    sent = [large(number) for number in range(20)]
    with new_producer(broker) as producer:
        producer.warmup(TOPIC)
        broker.faults.lose_reply("Produce")
        for future in [producer.send(TOPIC, value) for value in sent]:
            future.result(TIMEOUT_S)
        assert producer._engine.counters()["records_retried"] > 0
    assert values(broker) == sent


def test_borrowed_values_count_as_buffer_memory(broker: Broker) -> None:
    with new_producer(
        broker, linger_ms=60_000, batch_size=1 << 20, buffer_memory=1 << 20, max_block_ms=0
    ) as producer:
        producer.warmup(TOPIC, timeout=TIMEOUT_S)
        futures = [producer.try_send(TOPIC, large(number)) for number in range(12)]
        refused = [f for f in futures if isinstance(f.exception(TIMEOUT_S), BufferExhaustedError)]
        assert 2 <= len(refused) <= 3
        producer.flush(TIMEOUT_S)
        metrics = producer.metrics
        until(lambda: metrics()["producer-metrics"]["buffer-available-bytes"] == 1 << 20)
    assert len(values(broker)) == 12 - len(refused)


def test_a_producer_that_gives_up_gives_back_what_it_borrowed(broker: Broker) -> None:
    value = large(1)
    before = sys.getrefcount(value)
    producer = new_producer(broker, linger_ms=60_000)
    producer.warmup(TOPIC)
    producer.send(TOPIC, value)
    assert producer.purge() == 1
    producer.close(TIMEOUT_S)
    assert sys.getrefcount(value) == before


def test_a_batch_that_the_broker_finds_too_large_is_split(broker: Broker) -> None:
    """P-D.9: the halves have copies; what was borrowed is given back with the whole."""
    sent = [large(number) for number in range(8)]
    before = [sys.getrefcount(value) for value in sent]
    narrow = "narrow"
    limit = {"max.message.bytes": "250000"}
    kafka_admin.create_topic(broker.bootstrap_servers, narrow, 1, 1, limit)
    with new_producer(broker, linger_ms=60_000, batch_size=1 << 20) as producer:
        producer.warmup(narrow)
        futures = [producer.send(narrow, value) for value in sent]
        producer.flush(TIMEOUT_S)
        assert [future.result(0).offset for future in futures] == list(range(8))
        assert producer._engine.counters()["batches_split"] > 0
        del futures
    assert values(broker, narrow) == sent
    assert [sys.getrefcount(value) for value in sent] == before
