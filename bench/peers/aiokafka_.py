"""aiokafka as a client of the benchmarks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

from bench.awaiting import TASKS, await_by_tasks
from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload

_WARM_UP = 200
_SETTINGS = {
    "linger_ms": "linger_ms",
    "batch_bytes": "max_batch_size",
    "idempotence": "enable_idempotence",
}


async def _work(load: Workload) -> Outcome:
    values = make_values(load.values)
    size = load.round_count * sum(map(len, values))
    meter = Meter()
    given = {theirs: getattr(load, ours) for ours, theirs in _SETTINGS.items()}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    producer = AIOKafkaProducer(
        bootstrap_servers=load.bootstrap_servers,
        acks="all",
        compression_type=None if load.codec == "none" else load.codec,
        **settings,
    )
    await producer.start()
    await producer.send_and_wait(load.topic, values[0], partition=0)
    if load.way == TASKS:

        async def send_one(value: bytes) -> object:
            return await producer.send_and_wait(load.topic, value, partition=0)

        return await await_by_tasks(load, send_one, values, meter)
    if load.way == "latency":
        return await _one_at_a_time(load, producer, values, meter)
    send, topic, rounds = producer.send, load.topic, range(load.round_count)
    meter.start()
    futures = [await send(topic, value, partition=0) for _ in rounds for value in values]
    await producer.flush()
    meter.stop()
    delivered = sum(future.exception() is None for future in futures)
    return meter.outcome(1 + delivered, 1, size)


async def _one_at_a_time(
    load: Workload, producer: Any, values: list[bytes], meter: Meter
) -> Outcome:
    send, topic, clock = producer.send_and_wait, load.topic, time.perf_counter_ns
    for value in values[:_WARM_UP]:
        await send(topic, value, partition=0)
    took_us = []
    meter.start()
    for _ in range(load.round_count):
        for value in values:
            started_ns = clock()
            await send(topic, value, partition=0)
            took_us.append((clock() - started_ns) / 1000)
    meter.stop()
    warm_count = 1 + _WARM_UP
    size = load.round_count * sum(map(len, values))
    return meter.outcome(warm_count + len(took_us), warm_count, size, took_us)


def work(load: Workload) -> Outcome:
    return asyncio.run(_work(load))


if __name__ == "__main__":
    serve(work)
