"""What an awaiting client does in a run: one record after the other, or by many tasks at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from bench.meter import Meter, Outcome
from bench.workload import TRICKLE, TRICKLE_PAUSE_S, Workload

TASKS: Final = "tasks"
"""The way of a workload whose records are sent by TASK_COUNT tasks at once."""

TASK_COUNT: Final = 10_000
_WARM_UP: Final = 200
_BEAT_S: Final = 0.001

Send = Coroutine[Any, Any, object]
Way = Callable[[Workload, Callable[[bytes], Send], list[bytes], Meter], Awaitable[Outcome]]


def way_of(load: Workload) -> Way:
    """What the workload's way is, in an event loop."""
    return {TASKS: await_by_tasks, TRICKLE: await_trickle}.get(load.way, await_one_at_a_time)


async def await_one_at_a_time(
    load: Workload, send: Callable[[bytes], Send], values: list[bytes], meter: Meter
) -> Outcome:
    """Each record is awaited before the next one is sent. One was sent and awaited before."""
    clock = time.perf_counter_ns
    for value in values[:_WARM_UP]:
        await send(value)
    took_us = []
    meter.start()
    for _ in range(load.round_count):
        for value in values:
            started_ns = clock()
            await send(value)
            took_us.append((clock() - started_ns) / 1000)
    meter.stop()
    size = load.round_count * sum(map(len, values))
    warm_count = 1 + _WARM_UP
    return meter.outcome(warm_count + len(took_us), warm_count, size, took_us)


async def await_trickle(
    load: Workload, send: Callable[[bytes], Send], values: list[bytes], meter: Meter
) -> Outcome:
    """Five records a second; everything sleeps between two of them. One was sent before."""
    clock = time.perf_counter_ns
    value = values[0]
    took_us = []
    meter.start()
    for _ in range(load.record_count):
        await asyncio.sleep(TRICKLE_PAUSE_S)
        started_ns = clock()
        await send(value)
        took_us.append((clock() - started_ns) / 1000)
    meter.stop()
    return meter.outcome(1 + len(took_us), 1, load.record_count * len(value), took_us)


async def await_by_tasks(
    load: Workload, send: Callable[[bytes], Send], values: list[bytes], meter: Meter
) -> Outcome:
    """TASK_COUNT tasks, or one for each record, await theirs. One was sent and awaited before.

    The outcome's latencies are those of a heartbeat of the loop: how late a timer of 1 ms was. The
    first turn, in which all tasks begin, is not the client's, and does not count there.
    """
    task_count = min(TASK_COUNT, load.record_count)
    each_count, rest = divmod(load.record_count, task_count)
    assert rest == 0, "a multiple of the tasks"
    value, awaited = values[0], 0

    async def work() -> None:
        nonlocal awaited
        for _ in range(each_count):
            await send(value)
            awaited += 1

    late_us: list[float] = []
    heart = asyncio.create_task(_beat(late_us))
    meter.start()
    tasks = [asyncio.create_task(work()) for _ in range(task_count)]
    await asyncio.sleep(0)
    late_us.clear()
    await _all(tasks)
    meter.stop()
    heart.cancel()
    return meter.outcome(1 + awaited, 1, load.record_count * len(value), late_us[1:])


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        await task


async def _beat(late_us: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _BEAT_S
        await _sleep(due_s, loop)
        late_us.append((loop.time() - due_s) * 1e6)


async def _sleep(due_s: float, loop: asyncio.AbstractEventLoop) -> None:
    waiter: asyncio.Future[None] = loop.create_future()
    loop.call_at(due_s, waiter.set_result, None)
    waited: Awaitable[None] = waiter
    await waited
