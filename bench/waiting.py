"""One record at a time: each waited for before the next one, by one thread or by several."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bench.meter import Meter, Outcome
from bench.workload import Workload

WARM_UP = 200
"""Records before the clock starts."""

_MOST_AT_ONCE = 1_000

One = Callable[[bytes], object]
"""Sends a value and returns when it is acknowledged."""


def wait_for_each(
    load: Workload,
    values: list[bytes],
    meter: Meter,
    one: One,
    acknowledged: Callable[[], int],
    flood: One | None = None,
) -> Outcome:
    """Send and wait as `load` says; the latency of each record is in the outcome.

    Args:
        load: of the way "latency".
        values: gone through in turn.
        meter: of this process.
        one: called by `load.waiters` threads, each for records of its own.
        acknowledged: called at the end; flushes, and returns how many records were acknowledged.
        flood: sends a value and does not wait; for `load.flood_per_s`.
    """
    for value in values[:WARM_UP]:
        one(value)
    many = values * load.round_count
    with _flooding(load, values, flood):
        meter.start()
        took_us = _measured(load, many, one)
        meter.stop()
    size = load.round_count * sum(map(len, values))
    in_all = acknowledged()
    return meter.outcome(in_all, in_all - len(took_us), size, took_us)


def _measured(load: Workload, many: list[bytes], one: One) -> list[float]:
    if load.waiters == 1:
        return _took_us(many, one, load.pause_us)
    shares = [many[number :: load.waiters] for number in range(load.waiters)]
    with ThreadPoolExecutor(load.waiters) as threads:
        found = threads.map(lambda share: _took_us(share, one, load.pause_us), shares)
        return [each for took_us in found for each in took_us]


def _took_us(values: list[bytes], one: One, pause_us: int) -> list[float]:
    clock, took_us = time.perf_counter_ns, []
    for value in values:
        started_ns = clock()
        one(value)
        took_us.append((clock() - started_ns) / 1000)
        if pause_us:
            time.sleep(pause_us / 1e6)
    return took_us


@contextmanager
def _flooding(load: Workload, values: list[bytes], flood: One | None) -> Iterator[None]:
    """Another thread sends meanwhile, as much as it can where that is less than is wanted."""
    if not load.flood_per_s:
        yield
        return
    assert flood is not None
    stopping = threading.Event()

    def send_all() -> None:
        sent, began_s = 0, time.perf_counter()
        while not stopping.is_set():
            due = int((time.perf_counter() - began_s) * load.flood_per_s)
            for _ in range(min(due - sent, _MOST_AT_ONCE)):
                flood(values[sent % len(values)])
                sent += 1
            time.sleep(0.001)

    thread = threading.Thread(target=send_all, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
