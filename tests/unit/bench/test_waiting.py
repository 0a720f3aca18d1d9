"""bench.waiting: who waits for what, and that its account can be wrong."""

from __future__ import annotations

import threading

import pytest

from bench.meter import Meter
from bench.waiting import WARM_UP, wait_for_each
from bench.workload import VALUE_COUNT, Workload

VALUES = [b"%04d" % number for number in range(VALUE_COUNT)]


class Sink:
    """Takes values; knows by which threads."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.threads: set[int] = set()

    def one(self, value: bytes) -> None:
        self.threads.add(threading.get_ident())
        self.taken.append(value)


@pytest.mark.parametrize("waiters", [1, 8])
def test_each_value_is_waited_for_once(waiters: int) -> None:
    sink = Sink()
    load = Workload("latency", VALUE_COUNT, waiters=waiters)
    outcome = wait_for_each(load, VALUES, Meter(), sink.one, lambda: len(sink.taken))
    assert sorted(sink.taken[WARM_UP:]) == VALUES
    assert outcome.acknowledged_count == VALUE_COUNT + WARM_UP
    assert outcome.record_count == VALUE_COUNT == len(outcome.latencies_us)
    assert outcome.value_bytes == 4 * VALUE_COUNT
    assert (len(sink.threads) == 1) is (waiters == 1)


def test_the_flood_is_acknowledged_and_not_timed() -> None:
    sink, flood = Sink(), Sink()
    flooded = threading.Event()

    def drown(value: bytes) -> None:
        flood.one(value)
        flooded.set()

    def wait(value: bytes) -> None:
        sink.one(value)
        if len(sink.taken) > WARM_UP:
            assert flooded.wait(30)

    load = Workload("latency", VALUE_COUNT, flood_per_s=10_000)
    outcome = wait_for_each(
        load, VALUES, Meter(), wait, lambda: len(sink.taken) + len(flood.taken), drown
    )
    assert outcome.record_count == VALUE_COUNT
    assert outcome.acknowledged_count == VALUE_COUNT + WARM_UP + len(flood.taken)
    assert not flood.threads & sink.threads


def test_a_pause_is_not_timed() -> None:
    load = Workload("latency", VALUE_COUNT, pause_us=100)
    sink = Sink()
    outcome = wait_for_each(load, VALUES, Meter(), sink.one, lambda: len(sink.taken))
    assert sum(outcome.latencies_us) < outcome.wall_s * 1e6 - VALUE_COUNT * 100
