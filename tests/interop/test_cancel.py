"""Cancelled records on Apache Kafka, read back by confluent-kafka (P-A.3.13)."""

from __future__ import annotations

import random
import uuid
from contextlib import nullcontext

import numpy as np
import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import RecordCancelledError
from kafka_cluster import KafkaCluster
from support.records.readers import read_with_confluent

WAIT_S = 60.0
PARTITIONS = 3
RECORDS = 3_000


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_reader_finds_what_was_not_cancelled(
    kafka: KafkaCluster, topic: TopicFactory, is_transactional: bool
) -> None:
    """By key, with headers, compressed: each record that stays is at the offset that it was told,
    and the others are nowhere."""
    name = topic(kafka, PARTITIONS)
    settings = {"transactional_id": f"cancel-{uuid.uuid4().hex}"} if is_transactional else {}
    source = random.Random(46)
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        linger_ms=60_000,
        compression_type="lz4",
        batch_size=30_000,
        **settings,
    ) as producer:
        if is_transactional:
            producer.init_transactions(WAIT_S)
        sent = []
        with producer.transaction() if is_transactional else nullcontext():
            for number in range(RECORDS):
                value = b"%d" % number * 20
                key = b"key-%d" % (number % 50)
                future = producer.send(name, value, key, {"n": b"%d" % number})
                is_back = source.random() < 0.3 and future.cancel()
                sent.append((key, value, future, is_back))
            assert sum(is_back for *_, is_back in sent) > RECORDS // 10
            producer.flush(WAIT_S)
    found = read_with_confluent(kafka.bootstrap_servers, name, committed=is_transactional)
    places = {
        (partition, record.offset): record
        for partition, records in found.items()
        for record in records
    }
    for key, value, future, is_back in sent:
        if is_back:
            assert isinstance(future.exception(0), RecordCancelledError)
            continue
        told = future.result(0)
        record = places.pop((told.partition, told.offset))
        assert (record.key, record.value) == (key, value)
    assert places == {}


def test_a_reader_finds_the_rows_of_bulks_that_were_not_cancelled(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """Some bulks go whole, of some only what had left already, and of some nothing."""
    name = topic(kafka, PARTITIONS)
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        linger_ms=60_000,
        compression_type="lz4",
        batch_size=30_000,
    ) as producer:
        producer.warmup(name, timeout=WAIT_S)
        bulks = []
        for number in range(30):
            values = [b"%d %d" % (number, row) * 20 for row in range(200)]
            keys = [b"key-%d" % (row % 50) for row in range(200)]
            bulks.append((values, producer.send_many(name, values, keys)))
            if number % 3:
                answer = bulks[-1][1].cancel()
                assert bulks[-1][1].cancelled() is answer
        producer.flush(WAIT_S)
    found = read_with_confluent(kafka.bootstrap_servers, name)
    places = {(place, record.offset): record.value for place in found for record in found[place]}
    cancelled = 0
    for values, bulk in bulks:
        where = bulk.arrays(0)
        cancelled += int(np.count_nonzero(where.partitions == -2))
        for value, partition, offset in zip(values, where.partitions, where.offsets, strict=True):
            if partition >= 0:
                assert places.pop((partition, offset)) == value
            else:
                assert partition == -2
    assert places == {}
    assert cancelled > 200
