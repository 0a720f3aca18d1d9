"""Topics read completely by other people's clients: what a test compares with what it sent."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition

import kafka_admin

READ_TIMEOUT_S = 30.0
READER_GROUP = "fastprod-reader"
CONSUMED_AT_ONCE = 500
LEADER_MOVES = {KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}


class ReadRecord(NamedTuple):
    """One record as a reader saw it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """One past the last offset of each partition, as the brokers say now."""
    indexes = sorted(kafka_admin.partitions(bootstrap_servers, topic))
    if not indexes:
        raise LookupError(f"{bootstrap_servers} has no topic {topic}")
    consumer = ConfluentConsumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": READER_GROUP, "log_level": 0}
    )
    try:
        return {index: _high_watermark(consumer, topic, index) for index in indexes}
    finally:
        consumer.close()


def _high_watermark(consumer: ConfluentConsumer, topic: str, index: int) -> int:
    """A new leader refuses to say (OFFSET_NOT_AVAILABLE) until its followers have caught up."""
    deadline = time.monotonic() + READ_TIMEOUT_S
    while True:
        try:
            marks = consumer.get_watermark_offsets(
                ConfluentPartition(topic, index), timeout=READ_TIMEOUT_S, cached=False
            )
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in LEADER_MOVES:
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return marks[1]


def stream_with_kafka_python(
    bootstrap_servers: str,
    topic: str,
    ends: Mapping[int, int] | None = None,
    *,
    committed: bool = False,
    timeout_s: float = READ_TIMEOUT_S,
) -> Iterator[ReadRecord]:
    """Read a topic with kafka-python, CRCs checked, holding only what was fetched last.

    All nodes must run: it leaves sockets open when it meets a dead one.

    Args:
        bootstrap_servers: host:port, comma-separated.
        topic: name.
        ends: one past the last offset to read, by partition; None: what the brokers say now.
        committed: leave out records of aborted transactions.
        timeout_s: bound of the whole read.

    Yields: the records of each partition in the order of their offsets.
    Raises: TimeoutError with how far it came.
    """
    wanted = dict(end_offsets(bootstrap_servers, topic) if ends is None else ends)
    partitions = {index: TopicPartition(topic, index) for index in wanted}
    deadline = time.monotonic() + timeout_s
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        group_id=None,
        enable_auto_commit=False,
        check_crcs=True,
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    try:
        consumer.assign(list(partitions.values()))
        consumer.seek_to_beginning()
        while True:
            at = {index: consumer.position(each) for index, each in partitions.items()}
            if all(at[index] >= end for index, end in wanted.items()):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: read up to {at} of {wanted} in {timeout_s} s")
            for partition, polled in consumer.poll(timeout_ms=200).items():
                for each in polled:
                    if each.offset < wanted[partition.partition]:
                        yield ReadRecord(
                            partition.partition,
                            each.offset,
                            each.timestamp,
                            each.key,
                            each.value,
                            tuple(each.headers),
                        )
    finally:
        consumer.close()


def stream_with_confluent(
    bootstrap_servers: str,
    topic: str,
    ends: Mapping[int, int] | None = None,
    *,
    committed: bool = False,
    timeout_s: float = READ_TIMEOUT_S,
) -> Iterator[ReadRecord]:
    """Read a topic with confluent-kafka, CRCs checked; otherwise the same."""
    wanted = dict(end_offsets(bootstrap_servers, topic) if ends is None else ends)
    read = dict.fromkeys(wanted, 0)
    unfinished = {index for index, end in wanted.items() if end > 0}
    deadline = time.monotonic() + timeout_s
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": READER_GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        consumer.assign([ConfluentPartition(topic, index, 0) for index in sorted(unfinished)])
        while unfinished:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{topic}: read {read} records, ends are {wanted}, in {timeout_s} s"
                )
            for message in consumer.consume(CONSUMED_AT_ONCE, timeout=0.2):
                record = _taken(message, wanted, unfinished)
                if record is not None:
                    read[record.partition] += 1
                    yield record
    finally:
        consumer.close()


def _taken(message: Message, wanted: Mapping[int, int], unfinished: set[int]) -> ReadRecord | None:
    """One message, or None for an end-of-partition event, whose offset is one past the last."""
    index, offset = message.partition(), message.offset()
    assert index is not None
    assert offset is not None
    error = message.error()
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if offset >= wanted[index]:
            unfinished.discard(index)
        return None
    if offset >= wanted[index] - 1:
        unfinished.discard(index)
    if offset >= wanted[index]:
        return None
    headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
    timestamp_ms = message.timestamp()[1]
    return ReadRecord(index, offset, timestamp_ms, message.key(), message.value(), tuple(headers))


Stream = Callable[..., Iterator[ReadRecord]]
READERS: dict[str, Stream] = {
    "kafka-python": stream_with_kafka_python,
    "confluent-kafka": stream_with_confluent,
}


def _read(
    stream: Stream,
    bootstrap_servers: str,
    topic: str,
    ends: Mapping[int, int] | None = None,
    *,
    committed: bool = False,
    timeout_s: float = READ_TIMEOUT_S,
) -> dict[int, list[ReadRecord]]:
    """Every record of a topic by partition, in the order of offsets."""
    wanted = dict(end_offsets(bootstrap_servers, topic) if ends is None else ends)
    records: dict[int, list[ReadRecord]] = {index: [] for index in wanted}
    for each in stream(bootstrap_servers, topic, wanted, committed=committed, timeout_s=timeout_s):
        records[each.partition].append(each)
    return records


read_with_kafka_python = functools.partial(_read, stream_with_kafka_python)
read_with_confluent = functools.partial(_read, stream_with_confluent)
