"""Arrow and numpy columns into Apache Kafka, read back by other people's clients."""

from __future__ import annotations

from datetime import UTC

import numpy as np
import pyarrow as pa

from conftest import TopicFactory
from fastprod import KafkaProducer
from kafka_cluster import KafkaCluster
from support.records.readers import READERS, ReadRecord

PARTITIONS = 3
COUNT = 20_000
TIME_MS = 1_700_000_000_000
WAIT_S = 60.0


def sent_batch(topics: list[str]) -> pa.RecordBatch:
    numbers = range(COUNT)
    return pa.record_batch(
        {
            "topic": pa.array([topics[n % 2] for n in numbers]).dictionary_encode(),
            "key": pa.array([None if n % 5 == 0 else f"key {n % 999}" for n in numbers]),
            "value": pa.array(
                [None if n % 7 == 0 else b"%d " % n * (n % 9) for n in numbers], pa.binary_view()
            ),
            "partition": pa.array(
                [n % PARTITIONS if n % 5 == 0 else None for n in numbers], pa.int32()
            ),
            "timestamp": pa.array([(TIME_MS + n) * 1000 for n in numbers], pa.timestamp("us")),
            "headers": pa.array(
                [[("n", b"%d" % n), ("none", None)] if n % 3 else None for n in numbers],
                pa.map_(pa.string(), pa.binary()),
            ),
        }
    )


def test_every_reader_sees_what_the_columns_held(kafka: KafkaCluster, topic: TopicFactory) -> None:
    names = [topic(kafka, PARTITIONS) for _ in range(2)]
    batch = sent_batch(names)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        sliced = pa.Table.from_batches([batch[:7], batch[7:8_000], batch[8_000:]])
        found = producer.append_columns(sliced, header_columns={"from": b"arrow"}).result(WAIT_S)
    assert found.record_count == COUNT
    assert sum(each.record_count for each in found.ranges) == COUNT
    rows = batch.to_pylist()
    for name in names:
        mine = [row for row in rows if row["topic"] == name]
        for read in READERS.values():
            records = list(read(kafka.bootstrap_servers, name))
            assert sorted(map(content, records), key=repr) == sorted(map(wanted, mine), key=repr)
            by_partition: dict[int, list[int]] = {}
            for record in sorted(records, key=lambda each: (each.partition, each.offset)):
                by_partition.setdefault(record.partition, []).append(record.timestamp_ms)
            # Timestamps rise with the rows: within a partition their order was kept.
            assert all(times == sorted(times) for times in by_partition.values())


def content(record: ReadRecord) -> tuple[object, ...]:
    placed = record.partition if record.key is None else None
    return record.timestamp_ms, record.key, record.value, record.headers, placed


def wanted(row: dict[str, object]) -> tuple[object, ...]:
    key = row["key"]
    headers = row["headers"] or []
    stamp = row["timestamp"]
    return (
        round(stamp.replace(tzinfo=UTC).timestamp() * 1000),  # type: ignore[attr-defined]
        None if key is None else str(key).encode(),
        row["value"],
        (*headers, ("from", b"arrow")),  # type: ignore[misc]
        row["partition"],
    )


def test_numpy_columns_arrive_too(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(kafka, PARTITIONS)
    values = np.array([b"%d" % n for n in range(COUNT)])
    partitions = np.arange(COUNT, dtype=np.int16) % PARTITIONS
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4"
    ) as producer:
        producer.send_many(name, values, partitions=partitions).result(WAIT_S)
    for read in READERS.values():
        found: dict[int, list[bytes | None]] = {}
        for record in read(kafka.bootstrap_servers, name):
            found.setdefault(record.partition, []).append(record.value)
        assert found == {p: values[p::PARTITIONS].tolist() for p in range(PARTITIONS)}
