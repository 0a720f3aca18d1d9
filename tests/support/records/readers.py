"""Topics read completely by other people's clients: what a test compares with what it sent."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, cast

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition

import kafka_admin

READ_TIMEOUT_S = 60.0
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
    """One past the last offset of each partition, committed or not, as the brokers say now."""
    indexes = sorted(kafka_admin.partitions(bootstrap_servers, topic))
    if not indexes:
        raise LookupError(f"{bootstrap_servers} has no topic {topic}")
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": READER_GROUP,
            "log_level": 0,
            # By default it is told the last stable offset: a transaction's end is written to the
            # partitions after the producer has its answer.
            "isolation.level": "read_uncommitted",
        }
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
    settings: Mapping[str, Any] | None = None,
) -> Generator[ReadRecord, None, None]:
    """Read a topic with kafka-python, CRCs checked, holding only what was fetched last.

    All nodes must run: it leaves sockets open when it meets a dead one.

    Args:
        bootstrap_servers: host:port, comma-separated.
        topic: name.
        ends: one past the last offset to read, by partition; None: what the brokers say now.
        committed: leave out records of aborted transactions.
        timeout_s: bound of the whole read.
        settings: further ones of the client, in its own names, such as how to log in; the ends are
            asked for without them.

    Yields: the records of each partition in the order of their offsets.
    Raises: TimeoutError with how far it came.
    """
    wanted = dict(end_offsets(bootstrap_servers, topic) if ends is None else ends)
    partitions = {index: TopicPartition(topic, index) for index in wanted}
    deadline = time.monotonic() + timeout_s
    known: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers.split(","),
        "group_id": None,
        "enable_auto_commit": False,
        "check_crcs": True,
        "isolation_level": "read_committed" if committed else "read_uncommitted",
    }
    consumer = KafkaConsumer(**{**known, **(settings or {})})
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
                        yield _of_python(each)
    finally:
        consumer.close()


def _of_python(record: Any) -> ReadRecord:
    """A record of kafka-python's, or of aiokafka's."""
    return ReadRecord(
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


def stream_with_aiokafka(
    bootstrap_servers: str,
    topic: str,
    ends: Mapping[int, int] | None = None,
    *,
    committed: bool = False,
    timeout_s: float = READ_TIMEOUT_S,
    settings: Mapping[str, Any] | None = None,
) -> Generator[ReadRecord, None, None]:
    """Read a topic with aiokafka, CRCs checked; otherwise the same."""
    wanted = dict(end_offsets(bootstrap_servers, topic) if ends is None else ends)
    left = sum(wanted.values())
    deadline = time.monotonic() + timeout_s
    known: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers,
        "enable_auto_commit": False,
        # Not seek_to_beginning: an answer to its own first question, for the latest offset, would
        # be taken for the earliest one when it comes after the seek.
        "auto_offset_reset": "earliest",
        "check_crcs": True,
        "isolation_level": "read_committed" if committed else "read_uncommitted",
    }

    async def started() -> AIOKafkaConsumer:
        made = AIOKafkaConsumer(**{**known, **(settings or {})})
        await made.start()
        made.assign([AioPartition(topic, index) for index in wanted])
        return made

    loop = asyncio.new_event_loop()
    try:
        consumer = loop.run_until_complete(started())
        try:
            while left:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: {left:,} records are missing in {timeout_s} s")
                polled = loop.run_until_complete(
                    consumer.getmany(timeout_ms=200, max_records=CONSUMED_AT_ONCE)
                )
                for partition, records in polled.items():
                    for each in records:
                        if each.offset < wanted[partition.partition]:
                            left -= 1
                            yield _of_python(each)
        finally:
            loop.run_until_complete(consumer.stop())
    finally:
        loop.close()


def stream_with_confluent(
    bootstrap_servers: str,
    topic: str,
    ends: Mapping[int, int] | None = None,
    *,
    committed: bool = False,
    timeout_s: float = READ_TIMEOUT_S,
    settings: Mapping[str, Any] | None = None,
) -> Generator[ReadRecord, None, None]:
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
            **(settings or {}),
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


Stream = Callable[..., Generator[ReadRecord, None, None]]
READERS: dict[str, Stream] = {
    "kafka-python": stream_with_kafka_python,
    "confluent-kafka": stream_with_confluent,
}
"""Those that every proof reads with; `stream_with_aiokafka` and java_reader.py are more."""


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
