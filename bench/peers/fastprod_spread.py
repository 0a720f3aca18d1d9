"""fastprod over many partitions, topics or sending threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.peers.fastprod_ import _acknowledged, _producer
from bench.values import make_values
from bench.workload import Workload
from fastprod.producer import KafkaProducer

_KEY_COUNT = 20_000


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    targets = _targets(load)
    meter = Meter()
    producer = _producer(load)
    _send_to_each(load, producer, values[0])
    warm = _acknowledged(producer)
    send = _sender(load, producer, values, targets)
    each, rest = divmod(load.record_count, load.senders)
    shares = [each + (number < rest) for number in range(load.senders)]
    with ThreadPoolExecutor(load.senders) as threads:
        list(threads.map(lambda _: None, range(load.senders)))
        meter.start()
        list(threads.map(send, shares))
        if load.by_producer:  # else the time would be that of what is queued for the slowest node
            meter.stop()
        producer.flush()
        if not load.by_producer:
            meter.stop()
    size = load.round_count * sum(map(len, values))
    return meter.outcome(_acknowledged(producer), warm, size)


def _send_to_each(load: Workload, producer: KafkaProducer, value: bytes) -> None:
    """One record to each partition, so that all are known and connected."""
    numbers = range(load.nodes or load.partitions)
    places = [(name, number) for name in load.topic_names for number in numbers]
    topics, partitions = zip(*places, strict=True)
    columns = {"topic": topics, "partition": partitions, "value": [value] * len(places)}
    producer.append_columns(columns).result(60)


def _targets(load: Workload) -> list[tuple[str, Any]]:
    """Topics and what chooses the partition, gone through in turn."""
    names = load.topic_names
    if load.by_key:
        choose = random.Random(4711)
        return [(names[0], choose.randbytes(12)) for _ in range(_KEY_COUNT)]
    count = load.used_partitions or load.nodes or load.partitions
    return [(name, partition) for partition in range(count) for name in names]


def _sender(
    load: Workload,
    producer: KafkaProducer,
    values: list[bytes],
    targets: list[tuple[str, Any]],
) -> Callable[[int], None]:
    """Sends so many records."""

    def by_key(count: int) -> None:
        send, value = producer.send, values[0]
        for topic, key in islice(cycle(targets), count):
            send(topic, value, key)

    def in_turn(count: int) -> None:
        send, value = producer.send, values[0]
        for topic, partition in islice(cycle(targets), count):
            send(topic, value, partition=partition)

    def by_producer(count: int) -> None:
        send, value, topic = producer.send, values[0], load.topic_names[0]
        for _ in range(count):
            send(topic, value)

    if load.by_producer:
        return by_producer
    return by_key if load.by_key else in_turn


if __name__ == "__main__":
    serve(work)
