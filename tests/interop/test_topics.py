"""Topics that are unlike others, or change while records are sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions

import kafka_admin
from conftest import TopicFactory
from fastprod import KafkaProducer, RecordMetadata
from fastprod.errors import InvalidTopicError, MetadataTimeoutError
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.processes.scale import scaled, time_limit
from support.records.ledger import Ledger
from support.records.readers import (
    READERS,
    end_offsets,
    read_with_confluent,
    read_with_kafka_python,
)
from support.records.workload import Workload

TIMEOUT_S = 30.0
REQUEST_S = 15.0
MIB = 1 << 20
PAGE_BYTES = 4096


def until(holds: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Ask until it holds."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not so after {timeout_s} s"
        time.sleep(0.02)


def test_a_topic_with_log_append_time_tells_the_brokers_time(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-A.2, P-E.2: our own timestamp is replaced, and the future says by which."""
    name = topic(kafka, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time_ns() // 1_000_000
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(name, b"%d" % n, timestamp_ms=1_000 + n) for n in range(500)]
        found = [future.result(TIMEOUT_S) for future in futures]
    after_ms = time.time_ns() // 1_000_000
    for read in (read_with_confluent, read_with_kafka_python):
        records = read(kafka.bootstrap_servers, name)[0]
        assert [each.timestamp_ms for each in records] == [each.timestamp for each in found]
        assert [each.value for each in records] == [b"%d" % n for n in range(500)]
    assert before_ms <= found[0].timestamp <= found[-1].timestamp <= after_ms


def test_a_record_without_timestamp_has_the_time_of_send(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        before_ms = time.time_ns() // 1_000_000
        futures = [producer.send(name, b"%d" % n) for n in range(100)]
        after_ms = time.time_ns() // 1_000_000
        told = [future.result(TIMEOUT_S).timestamp for future in futures]
        first_ever = producer.send(name, b"old", timestamp_ms=0).result(TIMEOUT_S)
    records = read_with_confluent(kafka.bootstrap_servers, name)[0]
    assert [each.timestamp_ms for each in records] == [*told, 0]
    assert told == sorted(told)
    # The first send waits for the topic's metadata, and that counts (P-A.3.3).
    assert before_ms <= told[0] <= told[-1] <= after_ms
    assert first_ever.timestamp == 0


def test_a_topic_that_does_not_exist_is_created_by_the_first_record(kafka: KafkaCluster) -> None:
    """P-H.2.8"""
    name = f"created-by-sending-{time.time_ns()}"
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(name, b"%d" % n) for n in range(10)]
        assert [future.result(TIMEOUT_S).offset for future in futures] == list(range(10))
    assert len(read_with_confluent(kafka.bootstrap_servers, name)[0]) == 10


def test_warm_topics_can_be_sent_to_without_a_wait(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-A.1.9: one that is there, and one that Kafka makes because its metadata is asked for."""
    known, new = topic(kafka), f"warm-{time.time_ns()}"
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, warmup_topics=[known, new], max_block_ms=0
    ) as producer:
        metadata = producer._metadata
        until(lambda: {known, new} <= metadata.known_cluster.topics, "both topics are known")
        futures = [producer.send(name, b"x") for name in (known, new)]
        assert [future.result(TIMEOUT_S).offset for future in futures] == [0, 0]
    for name in (known, new):
        assert len(read_with_confluent(kafka.bootstrap_servers, name)[0]) == 1


def test_a_name_that_cannot_be_a_topics_fails_at_once_and_the_producer_goes_on(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-A.4.6"""
    name = topic(kafka)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        with pytest.raises(InvalidTopicError):
            producer.send("not/a/topic", b"value").result(TIMEOUT_S)
        assert producer.send(name, b"value").result(TIMEOUT_S).offset == 0


def test_partitions_that_are_added_while_records_are_sent_get_their_share(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-H.2, P-C.5: known at the next refresh; no record is lost or twice, lanes keep their
    order.
    """
    name = topic(kafka, 2)
    ledger = Ledger(Workload(40_000, seed=9, largest_bytes=500))
    errors: list[BaseException] = []
    settings = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "metadata_max_age_ms": 300,
        "batch_size": 16_384,
    }
    with KafkaProducer(settings) as producer:

        def send() -> None:
            try:
                send_workload(producer, name, ledger, rate_per_s=8_000)
            except BaseException as error:
                errors.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        until(lambda: ledger.acknowledged_count() > 4_000, "4,000 records acknowledged")
        admin = kafka_admin.connected(kafka.bootstrap_servers)
        admin.create_partitions([NewPartitions(name, 6)])[name].result(REQUEST_S)
        sender.join()
        assert len(producer.partitions_for(name)) == 6
    assert errors == []
    assert min(end_offsets(kafka.bootstrap_servers, name).values()) > 0
    for stream in READERS.values():
        ledger.check(stream(kafka.bootstrap_servers, name), 0)


def test_a_send_to_a_partition_that_is_not_there_yet_waits_for_it(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-A.4.4, P-A.4.5"""
    name = topic(kafka, 2)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=300) as hasty:
        hasty.warmup(name, timeout=TIMEOUT_S)
        with pytest.raises(MetadataTimeoutError, match=r"Partition 3 of .* count 2 "):
            hasty.send(name, b"value", partition=3).result(TIMEOUT_S)
        assert hasty.send(name, b"value", partition=1).result(TIMEOUT_S).offset == 0
    found: list[RecordMetadata] = []
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.warmup(name)

        def send() -> None:
            found.append(producer.send(name, b"value", partition=3).result(TIMEOUT_S))

        sender = threading.Thread(target=send)
        sender.start()
        admin = kafka_admin.connected(kafka.bootstrap_servers)
        admin.create_partitions([NewPartitions(name, 4)])[name].result(REQUEST_S)
        sender.join()
    assert [(each.partition, each.offset) for each in found] == [(3, 0)]


@pytest.fixture
def kafka_without_creation() -> Iterator[KafkaCluster]:
    """Where a topic is made by an administrator or not at all."""
    with KafkaCluster(nodes=1, config={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster


@pytest.mark.kafka
def test_a_topic_that_nobody_makes_fails_in_time_and_one_made_meanwhile_is_found(
    kafka_without_creation: KafkaCluster,
) -> None:
    """P-A.4.4, P-A.4.5"""
    servers = kafka_without_creation.bootstrap_servers
    with (
        KafkaProducer(bootstrap_servers=servers, max_block_ms=400) as hasty,
        pytest.raises(MetadataTimeoutError, match="Topic late not present"),
    ):
        hasty.send("late", b"value").result(TIMEOUT_S)
    found: list[RecordMetadata] = []
    with KafkaProducer(bootstrap_servers=servers) as producer:

        def send() -> None:
            found.append(producer.send("late", b"value").result(TIMEOUT_S))

        sender = threading.Thread(target=send)
        sender.start()
        kafka_without_creation.create_topic("late")
        sender.join()
    assert [(each.partition, each.offset) for each in found] == [(0, 0)]


class Stream:
    """One thread that sends numbers to both partitions of a topic until told to stop."""

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0
        self.acknowledged: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
        self.failed: dict[int, Exception] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.001):
            for partition in (0, 1):
                self._producer.send(
                    self._topic,
                    b"%d" % self.count,
                    partition=partition,
                    on_delivery=self._reporter(partition, self.count),
                )
            self.count += 1

    def _reporter(
        self, partition: int, number: int
    ) -> Callable[[RecordMetadata, Exception | None], None]:
        def report(metadata: RecordMetadata, error: Exception | None) -> None:
            if error is None:
                self.acknowledged[partition].append((number, metadata.offset))
            else:
                self.failed[number] = error

        return report

    def has_acknowledged_after(self, number: int) -> bool:
        return all(len(each) > 0 and each[-1][0] > number for each in self.acknowledged.values())


@pytest.mark.kafka
def test_a_topic_that_is_deleted_and_made_again_while_records_are_sent_goes_on(
    kafka_without_creation: KafkaCluster,
) -> None:
    """P-J.3.4, P-H.4: the new topic's id is learned; what was acknowledged by it is in it, once."""
    kafka3, name = kafka_without_creation, "made-twice"
    kafka3.create_topic(name, 2)
    with KafkaProducer(bootstrap_servers=kafka3.bootstrap_servers) as producer:
        stream = Stream(producer, name)
        stream.start()
        until(lambda: stream.has_acknowledged_after(100), "100 records acknowledged")
        admin = kafka_admin.connected(kafka3.bootstrap_servers)
        admin.delete_topics([name], operation_timeout=REQUEST_S)[name].result(REQUEST_S)
        until(lambda: not kafka_admin.partitions(kafka3.bootstrap_servers, name), "deleted")
        kafka3.create_topic(name, 2)
        made_at = stream.count
        until(lambda: stream.has_acknowledged_after(made_at), "records go to the new topic")
        until(lambda: stream.has_acknowledged_after(made_at + 500), "and go on")
        stream.stop()
        producer.flush(TIMEOUT_S)
    assert {number for number in stream.failed if number > made_at} == set(), stream.failed
    for partition, records in read_with_confluent(kafka3.bootstrap_servers, name).items():
        told = stream.acknowledged[partition]
        numbers = [number for number, _ in told]
        assert numbers == sorted(set(numbers))
        restarts = [n for n in range(1, len(told)) if told[n][1] <= told[n - 1][1]]
        assert len(restarts) == 1, "offsets start again once: with the new topic"
        in_new = told[restarts[0] :]
        assert [(int(each.value or b""), each.offset) for each in records] == in_new


def resident_bytes() -> int:
    """This process's memory that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


@time_limit(600)
def test_thousands_of_open_partitions_stay_within_buffer_memory(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """P-D.3: at the full size 5,000 partitions and the default 32 MiB; else both in proportion."""
    partitions = scaled(5_000, at_least=500)
    buffer_bytes = 32 * MIB * partitions // 5_000
    rounds = 4
    name = topic(kafka, partitions)
    delivered = [0]

    def count(_: RecordMetadata, error: Exception | None) -> None:
        assert error is None
        delivered[0] += 1

    settings = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "buffer_memory": buffer_bytes,
        "linger_ms": 1_000,
    }
    with KafkaProducer(settings) as producer:
        producer.warmup(name)
        before = resident_bytes()
        for number in range(rounds):
            for partition in range(partitions):
                producer.send(name, b"%d" % number, partition=partition, on_delivery=count)
            if number == 0:
                counters = producer._engine.counters()
                open_bytes = counters["buffer_total_bytes"] - counters["buffer_available_bytes"]
        producer.flush(TIMEOUT_S * 2)
        grown = resident_bytes() - before
    print(f"{partitions} partitions: {open_bytes:,} bytes of batches, {grown:,} bytes more in RAM")
    assert delivered[0] == rounds * partitions
    assert producer._engine.counters()["buffer_wait_ns"] == 0
    # The batches of the buffer, and what describes each of them and its requests.
    assert grown < buffer_bytes + 8 * MIB + 4 * 1024 * partitions
    assert set(end_offsets(kafka.bootstrap_servers, name).values()) == {rounds}
