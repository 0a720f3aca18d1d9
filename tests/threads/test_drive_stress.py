"""Callers that wait, flush, flood and forget at the same time, signals among them, and a close.

Every wait has a bound, and no record is without an outcome (docs/design/engine.md, Who drives).

FASTPROD_SCALE makes it longer.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import ProducerClosedError, UndeliveredError
from mock_cluster import MockCluster
from support.processes.scale import scaled, time_limit

LIVES = scaled(2_400, default_percent=0.4)
LIFE_S = 0.25
BOUND_S = 60.0
INTERRUPTS_S = 0.003


class Life:
    """A producer and the threads that use it until it is closed."""

    def __init__(self, bootstrap_servers: str, number: int) -> None:
        self._choices = random.Random(number)
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            enable_idempotence=number % 3 != 0,
            compression_type=("none", "lz4")[number % 2],
        )
        self.futures: list[RecordFuture] = []
        self.called = 0
        self.awaited = 0
        self.errors: list[BaseException] = []

    def wait(self, choices: random.Random) -> None:
        """One record at a time, large ones too."""
        future = self.producer.send("t", bytes(choices.choice((10, 100, 9_000))), partition=0)
        self.futures.append(future)
        assert future.result(BOUND_S).offset >= 0
        self.awaited += 1

    def wait_and_forget(self, choices: random.Random) -> None:
        """Nobody comes for the answer to the last one: its callback is called all the same."""
        for _ in range(choices.randrange(5)):
            self.wait(choices)
        told = threading.Event()

        def tell(metadata: object, error: object) -> None:
            self.called += 1
            told.set()

        send_at = choices.choice((0, 0, 1))
        self.futures.append(self.producer.send("t", b"told", partition=send_at, on_delivery=tell))
        assert told.wait(BOUND_S)
        future = self.producer.send("t", b"left", partition=0)
        self.futures.append(future)
        deadline_s = time.monotonic() + BOUND_S
        while not future.done():
            assert time.monotonic() < deadline_s
            time.sleep(0.001)

    def flush(self, choices: random.Random) -> None:
        self.futures.append(self.producer.send("t", b"flushed", partition=choices.randrange(2)))
        self.producer.flush(BOUND_S)

    def flood(self, choices: random.Random) -> None:
        for _ in range(choices.randrange(200)):
            self.futures.append(self.producer.send("t", b"flood", partition=choices.randrange(2)))
        if choices.random() < 0.3:
            self.producer.send_many("t", [b"bulk"] * 50).result(BOUND_S)

    def run(self, seconds: float) -> None:
        """Let each thread do the same again and again; close in the midst of it."""
        ways = [self.wait, self.wait, self.wait_and_forget, self.flush, self.flood]
        threads = [
            threading.Thread(target=self._repeat, args=(way, random.Random(self._choices.random())))
            for way in self._choices.sample(ways, self._choices.randrange(1, len(ways) + 1))
        ]
        for thread in threads:
            thread.start()
        own = random.Random(self._choices.random())
        until_s = time.monotonic() + seconds
        self.wait(own)
        while time.monotonic() < until_s:
            self.wait(own)
        with contextlib.suppress(UndeliveredError):
            self.producer.close(self._choices.choice((None, None, 0)))
        for thread in threads:
            thread.join(BOUND_S)
            assert not thread.is_alive()

    def _repeat(self, way: Callable[[random.Random], None], choices: random.Random) -> None:
        try:
            while True:
                way(choices)
        except ProducerClosedError:
            pass
        except BaseException as error:
            if not self.producer.closed:
                self.errors.append(error)

    def check(self) -> None:
        """All is accounted for."""
        assert not self.errors, self.errors
        assert self.awaited > 0
        assert all(future.done() for future in self.futures)
        counters = self.producer._engine.counters()
        assert counters["buffer_available_bytes"] == counters["buffer_total_bytes"]
        assert incomplete_for_test(self.producer._engine)[0] == 0


@pytest.fixture
def interrupts() -> Iterator[None]:
    """A signal every few ms of CPU time, whose handler does nothing."""
    before = signal.signal(signal.SIGPROF, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_PROF, INTERRUPTS_S, INTERRUPTS_S)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@time_limit(1800.0)
def test_whoever_waits_is_woken_whatever_the_others_do(
    mock_cluster: MockCluster, interrupts: None
) -> None:
    for number in range(LIVES):
        life = Life(mock_cluster.bootstrap_servers, number)
        life.run(LIFE_S)
        life.check()
