"""confluent-kafka's AIOProducer as a client of the benchmarks."""

from __future__ import annotations

import asyncio

from confluent_kafka.aio import AIOProducer

from bench.awaiting import await_by_tasks
from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload


async def _work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    producer = AIOProducer(
        {
            "bootstrap.servers": load.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )

    async def send(value: bytes) -> object:
        return await (await producer.produce(load.topic, value, partition=0))

    await send(values[0])
    outcome = await await_by_tasks(load, send, values, meter)
    await producer.close()
    return outcome


def work(load: Workload) -> Outcome:
    return asyncio.run(_work(load))


if __name__ == "__main__":
    serve(work)
