"""Event loops against Apache Kafka: what is awaited is there, as confluent-kafka reads it."""

from __future__ import annotations

import asyncio

import pytest

from conftest import TopicFactory
from fastprod.aio import AsyncProducer
from fastprod.errors import IllegalStateError
from kafka_cluster import KafkaCluster
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer
from support.records.readers import read_with_confluent

WAIT_S = 60.0
PARTITIONS = 3


@EVERY_LOOP
def test_each_record_awaited_is_where_it_was_said_to_be(
    kafka: KafkaCluster, topic: TopicFactory, run: Run
) -> None:
    name = topic(kafka, PARTITIONS)
    said: dict[tuple[int, int], bytes] = {}

    async def main() -> None:
        async with quick_async_producer(kafka.bootstrap_servers) as producer:

            async def send_some(task: int) -> None:
                for number in range(10):
                    value = b"%d %d" % (task, number)
                    found = await producer.send(name, value, b"key %d" % task)
                    said[found.partition, found.offset] = value

            await asyncio.gather(*(send_some(task) for task in range(200)))

    run(asyncio.wait_for(main(), WAIT_S))
    read = read_with_confluent(kafka.bootstrap_servers, name)
    found = {(r.partition, r.offset): r.value for records in read.values() for r in records}
    assert found == said
    assert len(said) == 2_000


async def fail_in_transaction(producer: AsyncProducer, name: str) -> None:
    async with producer.transaction():
        await producer.send(name, b"aborted")
        raise ZeroDivisionError


@EVERY_LOOP
def test_transactions_are_committed_or_aborted(
    kafka: KafkaCluster, topic: TopicFactory, run: Run
) -> None:
    """Also by what the block raises, and by the task's cancellation."""
    name = topic(kafka)

    async def main() -> None:
        async with quick_async_producer(
            kafka.bootstrap_servers, transactional_id=f"aio-{name}"
        ) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await asyncio.gather(*(producer.send(name, b"%d" % n) for n in range(20)))
            with pytest.raises(ZeroDivisionError):
                await fail_in_transaction(producer, name)
            is_sent = asyncio.Event()

            async def wait_for_ever() -> None:
                async with producer.transaction():
                    await producer.send(name, b"cancelled")
                    is_sent.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(wait_for_ever())
            await is_sent.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            with pytest.raises(IllegalStateError):
                await producer.send(name, b"outside")
            async with producer.transaction():
                await producer.send(name, b"last")

    run(asyncio.wait_for(main(), WAIT_S))
    (records,) = read_with_confluent(kafka.bootstrap_servers, name, committed=True).values()
    assert sorted(record.value or b"" for record in records) == sorted(
        [*(b"%d" % n for n in range(20)), b"last"]
    )
