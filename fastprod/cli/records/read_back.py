"""Reads a topic back with another client, which does not share bugs with ours."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import click

_POLL_S: Final = 0.2
_CHUNK_COUNT: Final = 10_000


ReadRecord = tuple[int, bytes | None, bytes | None]
"""What is compared of a record: partition, key, value."""

Read = Callable[[str, str, int, float], Iterator[list[ReadRecord]]]
"""Call it with (bootstrap_servers, topic, partition_count, timeout_s); yields chunks of records.

Reads each partition from its start to the end it has at the time of the call. Raises TimeoutError
when nothing has come for `timeout_s` seconds.
"""


class ForeignReader(NamedTuple):
    """An installed consumer of Kafka."""

    name: str
    read: Read


def installed_reader() -> ForeignReader:
    """The fastest foreign consumer that is installed.

    Raises:
        click.UsageError: there is none.
    """
    for name, module, read in (
        ("confluent-kafka", "confluent_kafka", _read_with_confluent),
        ("kafka-python", "kafka", _read_with_kafka_python),
    ):
        if importlib.util.find_spec(module) is not None:
            return ForeignReader(name, read)
    raise click.UsageError(
        "records are read back with another Kafka client, and none is installed: install "
        "confluent-kafka or kafka-python"
    )


class _Patience:
    """Gives up when nothing has come for a while."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._last_s = time.monotonic()

    def saw(self, something: bool, unfinished: object) -> None:
        now_s = time.monotonic()
        if something:
            self._last_s = now_s
        elif now_s - self._last_s > self._timeout_s:
            raise TimeoutError(
                f"reading back: nothing came for {self._timeout_s:g} s, with partitions "
                f"{unfinished} not read to their end"
            )


def _read_with_confluent(
    bootstrap_servers: str, topic: str, partition_count: int, timeout_s: float
) -> Iterator[list[ReadRecord]]:
    confluent: Any = importlib.import_module("confluent_kafka")
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "fastprod-demo",
            "enable.auto.commit": False,
            "check.crcs": True,
            # By default it pauses while it has 100,000 messages, each time for a second.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 0,
            "log_level": 0,
        }
    )
    try:
        ends = {}
        for index in range(partition_count):
            place = confluent.TopicPartition(topic, index)
            _, end = consumer.get_watermark_offsets(place, timeout=timeout_s, cached=False)
            if end > 0:
                ends[index] = end
        consumer.assign([confluent.TopicPartition(topic, index, 0) for index in ends])
        patience = _Patience(timeout_s)
        while ends:
            chunk = []
            for message in consumer.consume(_CHUNK_COUNT, timeout=_POLL_S):
                if message.error() is not None:
                    raise confluent.KafkaException(message.error())
                index = message.partition()
                chunk.append((index, message.key(), message.value()))
                if message.offset() >= ends.get(index, 0) - 1:
                    ends.pop(index, None)
            patience.saw(bool(chunk), sorted(ends))
            yield chunk
    finally:
        consumer.close()


def _read_with_kafka_python(
    bootstrap_servers: str, topic: str, partition_count: int, timeout_s: float
) -> Iterator[list[ReadRecord]]:
    kafka: Any = importlib.import_module("kafka")
    places = [kafka.TopicPartition(topic, index) for index in range(partition_count)]
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        group_id=None,
        enable_auto_commit=False,
        check_crcs=True,
        max_poll_records=_CHUNK_COUNT,
    )
    try:
        ends = {each.partition: end for each, end in consumer.end_offsets(places).items() if end}
        consumer.assign([place for place in places if place.partition in ends])
        consumer.seek_to_beginning()
        patience = _Patience(timeout_s)
        while ends:
            chunk = []
            for place, records in consumer.poll(timeout_ms=int(_POLL_S * 1000)).items():
                chunk += [(place.partition, each.key, each.value) for each in records]
                if records[-1].offset >= ends.get(place.partition, 0) - 1:
                    ends.pop(place.partition, None)
            patience.saw(bool(chunk), sorted(ends))
            yield chunk
    finally:
        consumer.close()
