"""Batches and records larger than a limit: the topic's, the request's, the buffer's."""

from __future__ import annotations

import threading

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import RecordTooLargeError
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.records.ledger import Ledger
from support.records.readers import READERS, read_with_confluent
from support.records.workload import Workload

PARTITIONS = 3
TOPIC_LIMIT_BYTES = 20_000
TIMEOUT_S = 30.0


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_batches_above_the_topics_limit_are_split_and_each_record_arrives_once(
    kafka: KafkaCluster, topic: TopicFactory, codec: str, idempotent: bool
) -> None:
    """P-D.9: order, sequences and futures survive; nobody sees the split."""
    name = topic(kafka, PARTITIONS, config={"max.message.bytes": str(TOPIC_LIMIT_BYTES)})
    ledger = Ledger(Workload(6_000, largest_bytes=TOPIC_LIMIT_BYTES // 2))
    settings = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "compression_type": codec,
        "enable_idempotence": idempotent,
        "max_in_flight_requests_per_connection": 5 if idempotent else 1,
        "linger_ms": 20,
    }
    with KafkaProducer(settings) as producer:
        send_workload(producer, name, ledger)
        counters = producer._engine.counters()
    assert counters["batches_split"] > 0
    for stream in READERS.values():
        ledger.check(stream(kafka.bootstrap_servers, name), PARTITIONS)
    for batches in kafka.dump_logs(name, PARTITIONS):
        sizes = [batch.number("size") for batch in batches]
        assert max(sizes) <= TOPIC_LIMIT_BYTES


def test_one_record_above_the_topics_limit_fails_and_its_neighbours_arrive(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-D.9.1, P-D.9.7, P-F.5.8: the partition goes on under a new epoch."""
    name = topic(kafka, 1, config={"max.message.bytes": str(TOPIC_LIMIT_BYTES)})
    values = [b"%d" % number for number in range(40)]
    values[17] = b"x" * (2 * TOPIC_LIMIT_BYTES)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=50) as producer:
        futures = [producer.send(name, value) for value in values]
        error = futures[17].exception(TIMEOUT_S)
        assert isinstance(error, RecordTooLargeError)
        assert "max.message.bytes" in str(error)
        assert [each.exception(TIMEOUT_S) for n, each in enumerate(futures) if n != 17] == (
            [None] * 39
        )
        after = producer.send(name, b"after").result(TIMEOUT_S)
        offsets = [each.result().offset for n, each in enumerate(futures) if n != 17]
    assert (offsets, after.offset) == (list(range(39)), 39)
    read = [each.value for each in read_with_confluent(kafka.bootstrap_servers, name)[0]]
    assert read == [*values[:17], *values[18:], b"after"]


@pytest.mark.parametrize(
    ("settings", "size", "limit"),
    [({}, 1_048_576, "max_request_size"), ({"buffer_memory": 262_144}, 262_144, "buffer_memory")],
)
def test_a_record_above_a_limit_of_ours_fails_at_once_and_nothing_is_sent(
    kafka: KafkaCluster, topic: TopicFactory, settings: dict[str, int], size: int, limit: str
) -> None:
    """P-A.3.12: by the future."""
    name = topic(kafka)
    with KafkaProducer({"bootstrap_servers": kafka.bootstrap_servers, **settings}) as producer:
        refused = producer.send(name, bytes(size))
        assert refused.done()
        with pytest.raises(RecordTooLargeError, match=limit):
            refused.result()
        assert producer.send(name, b"small").result(TIMEOUT_S).offset == 0
    assert len(read_with_confluent(kafka.bootstrap_servers, name)[0]) == 1


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("buffer_kib", [512, 1_024])
def test_records_of_200_kb_pass_through_a_buffer_that_holds_few_of_them(
    kafka: KafkaCluster, topic: TopicFactory, buffer_kib: int, codec: str
) -> None:
    """P-D.3.3: callers wait in line; everything arrives, the bound holds, and nothing leaks."""
    name = topic(kafka, PARTITIONS)
    values = {
        lane: [bytes([lane]) * (200_000 - number) for number in range(40)] for lane in range(4)
    }
    settings = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "buffer_memory": buffer_kib * 1024,
        "compression_type": codec,
    }
    with KafkaProducer(settings) as producer:

        def send(lane: int) -> None:
            for value in values[lane]:
                producer.send(name, value, partition=lane % PARTITIONS)

        threads = [threading.Thread(target=send, args=(lane,)) for lane in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(TIMEOUT_S)
    counters = producer._engine.counters()
    assert counters["records_failed"] == 0
    assert counters["buffer_wait_ns"] > 0
    assert counters["buffer_available_bytes"] == counters["buffer_total_bytes"]
    assert counters["buffer_total_bytes"] <= buffer_kib * 1024
    found = read_with_confluent(kafka.bootstrap_servers, name)
    for lane, sent in values.items():
        in_partition = [each.value for each in found[lane % PARTITIONS] if each.value]
        assert [value for value in in_partition if value[0] == lane] == sent
