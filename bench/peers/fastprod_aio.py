"""fastprod's AsyncProducer as a client of the benchmarks, in asyncio's loop."""

from __future__ import annotations

import asyncio

from bench.awaiting import Send, way_of
from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload
from fastprod.aio import AsyncProducer


async def run(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    async with AsyncProducer(bootstrap_servers=load.bootstrap_servers, acks="all") as producer:
        await producer.send(load.topic, values[0], partition=0)

        def send(value: bytes) -> Send:
            return producer.send(load.topic, value, None, None, 0)

        return await way_of(load)(load, send, values, meter)


def work(load: Workload) -> Outcome:
    return asyncio.run(run(load))


if __name__ == "__main__":
    serve(work)
