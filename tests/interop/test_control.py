"""The harness itself: two other clients and Kafka's own tools agree, with no code of ours between.

When these fail, the fault is in the harness or the machine, not in fastprod.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from log_dump import DumpFailed
from mock_cluster import MockCluster
from support.records.readers import end_offsets, read_with_confluent, read_with_kafka_python

RECORDS_PER_PARTITION = 50
FIRST_TIMESTAMP_MS = 1_000
HEADERS: list[tuple[str, bytes]] = [("empty", b""), ("twice", b"1"), ("twice", b"2")]

Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def expected(partitions: int) -> dict[int, list[Row]]:
    """What `partition, number -> record` below must give when read back."""
    return {
        partition: [
            (
                partition,
                number,
                FIRST_TIMESTAMP_MS + number,
                b"key %d" % number if number % 2 else None,
                b"value %d" % number if number % 4 != 1 else None,
                tuple(HEADERS),
            )
            for number in range(RECORDS_PER_PARTITION)
        ]
        for partition in range(partitions)
    }


def produce_with_confluent(kafka: KafkaCluster, name: str, partitions: int, codec: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec})
    for rows in expected(partitions).values():
        for partition, _, timestamp_ms, key, value, headers in rows:
            producer.produce(
                name, value, key, partition, timestamp=timestamp_ms, headers=list(headers)
            )
    assert producer.flush(20) == 0


def produce_with_kafka_python(kafka: KafkaCluster, name: str, partitions: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers.split(","))
    for rows in expected(partitions).values():
        for partition, _, timestamp_ms, key, value, headers in rows:
            producer.send(name, value, key, list(headers), partition, timestamp_ms)
    producer.flush(timeout=20)
    producer.close(timeout=5)


@pytest.mark.parametrize(
    "codec",
    [
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("gzip", "snappy", "lz4")),
        "none",
        "zstd",
    ],
)
def test_what_confluent_writes_both_readers_and_kafkas_dump_tool_read_back(
    kafka: KafkaCluster, topic: TopicFactory, codec: str
) -> None:
    name = topic(kafka, partitions=2)
    produce_with_confluent(kafka, name, 2, codec)
    assert end_offsets(kafka.bootstrap_servers, name) == {
        0: RECORDS_PER_PARTITION,
        1: RECORDS_PER_PARTITION,
    }
    assert read_with_kafka_python(kafka.bootstrap_servers, name) == expected(2)
    assert read_with_confluent(kafka.bootstrap_servers, name) == expected(2)
    batches = kafka.dump_log(name, 0)
    assert sum(batch.number("count") for batch in batches) == RECORDS_PER_PARTITION
    assert {batch.fields["compresscodec"] for batch in batches} == {codec}


def test_what_kafka_python_writes_both_readers_and_kafkas_dump_tool_read_back(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka, partitions=2)
    produce_with_kafka_python(kafka, name, 2)
    assert read_with_confluent(kafka.bootstrap_servers, name) == expected(2)
    assert read_with_kafka_python(kafka.bootstrap_servers, name) == expected(2)
    assert sum(len(batch.records) for batch in kafka.dump_log(name, 1)) == RECORDS_PER_PARTITION


def test_readers_leave_out_an_aborted_transaction_only_when_told(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"id-of-{name}"}
    )
    producer.init_transactions(20)
    for value in (b"kept", b"aborted"):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush(20)
        (producer.commit_transaction if value == b"kept" else producer.abort_transaction)(20)
    for read in (read_with_confluent, read_with_kafka_python):
        assert [r.value for r in read(kafka.bootstrap_servers, name)[0]] == [b"kept", b"aborted"]
        committed = read(kafka.bootstrap_servers, name, committed=True)
        assert [r.value for r in committed[0]] == [b"kept"]


def test_dump_log_raises_when_one_bit_of_a_record_differs(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    produce_with_confluent(kafka, name, 1, "none")
    (segment,) = (kafka.log_dir(1) / f"{name}-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[-3] ^= 0x10
    segment.write_bytes(data)
    with pytest.raises(DumpFailed, match="not a valid batch"):
        kafka.dump_log(name, 0)


@pytest.mark.slow
def test_three_nodes_survive_the_killed_leader_and_take_it_back(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka3)
    assert len(kafka3.isr(name, 0)) == 3
    produce_with_confluent(kafka3, name, 1, "none")
    old = kafka3.leader(name, 0)
    kafka3.kill(old)
    try:
        assert kafka3.wait_for_leader(name, 0, other_than=old) != old
        assert old not in kafka3.wait_for_isr(name, 0, count=2)
        assert read_with_confluent(kafka3.bootstrap_servers, name) == expected(1)
    finally:
        kafka3.restart(old)
    assert set(kafka3.wait_for_isr(name, 0, count=3)) == {1, 2, 3}
    for node_id in kafka3.node_ids:
        dumped = kafka3.dump_log(name, 0, node_id=node_id)
        assert sum(len(batch.records) for batch in dumped) == RECORDS_PER_PARTITION


def test_the_mock_cluster_takes_records_from_another_process(mock_cluster: MockCluster) -> None:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": mock_cluster.bootstrap_servers
    }
    assert len(AdminClient(settings).list_topics(timeout=10).brokers) == 1
    producer = Producer(settings)
    offsets: list[int | None] = []
    producer.produce("any", b"v", partition=0, callback=lambda _, m: offsets.append(m.offset()))
    assert producer.flush(10) == 0
    assert offsets == [0]
