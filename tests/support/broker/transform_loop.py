"""A loop of reading, working and writing, which may be killed at any time.

python tests/support/broker/transform_loop.py <client> <bootstrap servers> <count>

It copies `count` records from topic "source" to topic "target", in transactions of a few, with the
group's offsets. After each transaction it prints how many it has copied.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaException, Message, Producer
from kafka.structs import OffsetAndMetadata

from fastprod import KafkaProducer

AT_ONCE = 5
LINE_BYTES = 1_000
WAIT_S = 30.0
POLL_MS = 200
GROUP, TRANSACTIONAL_ID = "loop", "loop-1"
# The next one takes the place of one that was killed, at once.
INSTANCE = "loop"

Copy = Callable[[Consumer, Sequence[Message]], None]


def say(copied: int) -> None:
    """Long lines, so that a pipe holds few of them: who is not read does not run far ahead."""
    print(f"{copied:>{LINE_BYTES - 1}}", flush=True)


def with_confluent(servers: str) -> Copy:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(WAIT_S)

    def copy(consumer: Consumer, messages: Sequence[Message]) -> None:
        producer.begin_transaction()
        for message in messages:
            producer.produce("target", message.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S)

    return copy


def with_fastprod(servers: str) -> Copy:
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=TRANSACTIONAL_ID)
    producer.init_transactions(WAIT_S)

    def copy(consumer: Consumer, messages: Sequence[Message]) -> None:
        with producer.transaction():
            for message in messages:
                producer.send("target", message.value())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
            )

    return copy


def read_by_confluent(copy: Copy, servers: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "group.instance.id": INSTANCE,
            "log_level": 0,
        }
    )
    consumer.subscribe(["source"])
    copied = 0
    while True:
        messages = [
            each for each in consumer.consume(AT_ONCE, POLL_MS / 1e3) if each.error() is None
        ]
        if messages:
            copy(consumer, messages)
            copied += len(messages)
            say(copied)
            continue
        # Nothing more for a while: all may be copied.
        with contextlib.suppress(KafkaException):
            places = consumer.committed(consumer.assignment(), WAIT_S)
            if places and sum(max(each.offset, 0) for each in places) >= count:
                break
    consumer.close()


def loop_of_kafka_python(servers: str, count: int) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","), transactional_id=TRANSACTIONAL_ID
    )
    producer.init_transactions()
    consumer = kafka.KafkaConsumer(
        "source",
        bootstrap_servers=servers.split(","),
        group_id=GROUP,
        group_instance_id=INSTANCE,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=AT_ONCE,
    )
    place = kafka.TopicPartition("source", 0)
    copied = 0
    while True:
        records = consumer.poll(timeout_ms=POLL_MS).get(place, [])
        if records:
            producer.begin_transaction()
            for each in records:
                producer.send("target", each.value)
            position = OffsetAndMetadata(records[-1].offset + 1, "", -1)
            producer.send_offsets_to_transaction({place: position}, consumer.group_metadata())
            producer.commit_transaction()
            copied += len(records)
            say(copied)
        elif place in consumer.assignment() and (consumer.committed(place) or 0) >= count:
            break
    consumer.close()
    producer.close()


async def loop_of_aiokafka(servers: str, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=TRANSACTIONAL_ID)
    await producer.start()
    consumer = AIOKafkaConsumer(
        "source",
        bootstrap_servers=servers,
        group_id=GROUP,
        group_instance_id=INSTANCE,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    copied = 0
    while True:
        polled: dict[Any, list[Any]] = await consumer.getmany(
            timeout_ms=POLL_MS, max_records=AT_ONCE
        )
        for place, records in polled.items():
            async with producer.transaction():
                for each in records:
                    await producer.send("target", each.value)
                await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, GROUP)
            copied += len(records)
            say(copied)
        if not polled:
            committed = [await consumer.committed(each) or 0 for each in consumer.assignment()]
            if sum(committed) >= count:
                break
    await consumer.stop()
    await producer.stop()


# What its predecessor has left open is ended before the next one reads: offsets are stable.
CLIENTS: dict[str, Callable[[str, int], None]] = {
    "aiokafka": lambda servers, count: asyncio.run(loop_of_aiokafka(servers, count)),
    "confluent-kafka": lambda servers, count: read_by_confluent(
        with_confluent(servers), servers, count
    ),
    "fastprod": lambda servers, count: read_by_confluent(with_fastprod(servers), servers, count),
    "kafka-python": loop_of_kafka_python,
}


if __name__ == "__main__":
    CLIENTS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
