"""Everything at once for a few seconds: no record is lost, no future hangs, no memory is kept.

`FASTPROD_HAMMER_S` makes it longer, `FASTPROD_HAMMER_SEED` repeats a run's choices.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from fastprod import KafkaProducer, RecordFuture
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import (
    BufferExhaustedError,
    FlushTimeoutError,
    ProducerClosedError,
    UndeliveredError,
)
from mock_cluster import MockCluster

SECONDS = float(os.environ.get("FASTPROD_HAMMER_S", "5"))
SEED = int(os.environ.get("FASTPROD_HAMMER_SEED", str(random.getrandbits(32))))
LONGEST_LIFE_S = 2.0
THREADS = 5
BUFFER_BYTES = 600_000
BOUND_S = 60.0
CONFIGS: tuple[dict[str, object], ...] = (
    {},
    {"linger_ms": 2, "compression_type": "lz4"},
    {"acks": 0, "enable_idempotence": False},
    {"max_in_flight_requests_per_connection": 1, "compression_type": "snappy"},
    {"enable_idempotence": False, "acks": 1, "compression_type": "gzip", "batch_size": 1_000},
)


class Life:
    """One producer, from its making to its close, and the threads that use it meanwhile."""

    def __init__(self, bootstrap_servers: str, seed: int) -> None:
        self._random = random.Random(seed)
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            buffer_memory=BUFFER_BYTES,
            **{"batch_size": 16_384, **self._random.choice(CONFIGS)},
        )
        self.futures: list[RecordFuture] = []
        self.bulks: list[BulkFuture] = []
        # With both names: to find one missing runs Python, where another thread may come between.
        self.counts: Counter[str] = Counter(watched=0, added=0)
        self.called: Counter[str] = Counter(watched=0, added=0)
        self.errors: list[BaseException] = []
        self._stop = threading.Event()

    def run(self, seconds: float) -> None:
        """Let the threads do as they like; close in the middle of it, in one of three ways."""
        threads = [
            threading.Thread(target=self._work, args=(random.Random(self._random.random()),))
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        timeout = self._random.choice((None, None, 0, 0.05))
        try:
            self.producer.close(timeout)
        except UndeliveredError as error:
            self.counts["undelivered"] = error.undelivered_count
        self._stop.set()
        for thread in threads:
            thread.join(BOUND_S)
            assert not thread.is_alive()

    def _work(self, choices: random.Random) -> None:
        deeds: list[Callable[[random.Random], None]] = [
            *[self._send] * 8,
            *[self._send_watched] * 3,
            self._send_many,
            self._wait,
            self._add_callback,
            self._flush,
            self._look,
        ]
        try:
            while not self._stop.is_set():
                try:
                    choices.choice(deeds)(choices)
                except (BufferExhaustedError, FlushTimeoutError):
                    self.counts["patience lost"] += 1
        except ProducerClosedError:
            pass
        except BaseException as error:
            self.errors.append(error)

    def _topic(self, choices: random.Random) -> str:
        return choices.choice(("one", "two", "three"))

    def _send(self, choices: random.Random) -> None:
        for _ in range(choices.randrange(1, 30)):
            self.futures.append(
                self.producer.send(
                    self._topic(choices),
                    bytes(choices.choice((0, 10, 100, 5_000))),
                    key=choices.choice((None, b"a", b"b")),
                    headers=choices.choice((None, [("h", b"v")])),
                    partition=choices.choice((None, None, 0, 3)),
                )
            )

    def _send_watched(self, choices: random.Random) -> None:
        self.counts["watched"] += 1
        try:
            self.futures.append(
                self.producer.send(self._topic(choices), b"watched", on_delivery=self._delivered)
            )
        except BaseException:
            self.counts["watched"] -= 1
            raise

    def _delivered(self, metadata: object, error: object) -> None:
        self.called["watched"] += 1

    def _send_many(self, choices: random.Random) -> None:
        count = choices.randrange(1, 3_000)
        self.bulks.append(
            self.producer.send_many(self._topic(choices), [bytes(choices.randrange(200))] * count)
        )

    def _wait(self, choices: random.Random) -> None:
        if self.futures:
            self.futures[choices.randrange(len(self.futures))].exception(BOUND_S)
        if self.bulks:
            self.bulks[choices.randrange(len(self.bulks))].exception(BOUND_S)

    def _add_callback(self, choices: random.Random) -> None:
        if self.futures:
            self.counts["added"] += 1
            future = self.futures[choices.randrange(len(self.futures))]
            future.add_done_callback(lambda done: self.called.update(["added"]))
        if self.bulks:
            self.counts["added"] += 1
            bulk = self.bulks[choices.randrange(len(self.bulks))]
            bulk.add_done_callback(lambda done: self.called.update(["added"]))

    def _flush(self, choices: random.Random) -> None:
        self.producer.flush(choices.choice((None, 0, 0.01)))

    def _look(self, choices: random.Random) -> None:
        self.producer.metrics()
        self.producer.partitions_for(self._topic(choices))
        assert repr(self.producer)
        for future in self.futures[-3:]:
            assert repr(future)

    def check(self) -> None:
        """All is accounted for: each future, each callback, all memory."""
        assert not self.errors, self.errors
        assert all(future.done() for future in self.futures)
        assert all(bulk.done() for bulk in self.bulks)
        assert self.called == Counter(watched=self.counts["watched"], added=self.counts["added"])
        if self.counts["undelivered"] == 0:
            failed = [f.exception(0) for f in self.futures if f.failed()]
            assert all(isinstance(error, BufferExhaustedError) for error in failed), failed
            assert not any(bulk.failures(0) for bulk in self.bulks)
        counters = self.producer._engine.counters()
        assert counters["buffer_available_bytes"] == counters["buffer_total_bytes"]
        assert counters["heap_bytes"] == 0
        assert counters["waiting_threads"] == 0
        assert incomplete_for_test(self.producer._engine)[0] == 0


def test_nothing_is_lost_and_nothing_hangs_when_all_is_done_at_once(
    mock_cluster: MockCluster,
) -> None:
    """P-A.1.7: two producers live at any time; each is closed while threads still use it."""
    print(f"FASTPROD_HAMMER_SEED={SEED}")
    seeds = random.Random(SEED)
    deadline_s = time.monotonic() + SECONDS
    failures: list[BaseException] = []
    lived = Counter[str]()

    def live(own: random.Random) -> None:
        try:
            while time.monotonic() < deadline_s and not failures:
                life = Life(mock_cluster.bootstrap_servers, own.getrandbits(32))
                life.run(own.random() * LONGEST_LIFE_S)
                life.check()
                lived.update(lives=1, futures=len(life.futures), bulks=len(life.bulks))
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=live, args=(random.Random(seeds.random()),)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 2 * BOUND_S)
    print(dict(lived))
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads)
    assert lived["lives"] >= 2
