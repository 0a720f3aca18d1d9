"""Half an hour under load while the nodes are restarted in turn: nothing lost, and nothing grows.

`make soak` is this test. An idempotent and a transactional producer send all the time. Memory,
threads, descriptors and what is out of the producers' buffers are looked at once a second: the
median of the last quarter is that of the second one.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import KafkaError, KafkaTimeoutError
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.processes.scale import scaled, time_limit
from support.records.ledger import Ledger
from support.records.readers import READERS, stream_with_confluent
from support.records.workload import Workload

RATE_PER_S = 2_000
FULL_S = 1_800
LEAST_S = 60
PARTITIONS = 6
RESTART_EVERY_S = 20.0
ISR_TIMEOUT_S = 60.0
LOOK_EVERY_S = 1.0
MIB = 1 << 20
PAGE_BYTES = 4096
TRANSACTION_RECORDS = 50
TRANSACTION_PAUSE_S = 0.1
CALL_S = 120.0


class Look(NamedTuple):
    """This process at one moment."""

    resident_bytes: int
    threads: int
    descriptors: int
    buffer_bytes: int

    @classmethod
    def now(cls, producers: Sequence[KafkaProducer]) -> Look:
        return cls(
            int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES,
            len(list(Path("/proc/self/task").iterdir())),
            len(list(Path("/proc/self/fd").iterdir())),
            sum(map(out_of_buffer, producers)),
        )


MAY_GROW = Look(resident_bytes=16 * MIB, threads=1, descriptors=3, buffer_bytes=4 * MIB)


def out_of_buffer(producer: KafkaProducer) -> int:
    """Bytes of slabs that are in use, and of those that are on the heap."""
    found = producer._engine.counters()
    return found["buffer_total_bytes"] - found["buffer_available_bytes"] + found["heap_bytes"]


class Watch:
    """Restarts the nodes in turn, and looks at this process, until told to stop; in a `with`."""

    def __init__(self, kafka: KafkaCluster, topic: str, producers: Sequence[KafkaProducer]) -> None:
        self._kafka = kafka
        self._topic = topic
        self._producers = producers
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__)
            for work in (self._restart_all, self._look)
        ]
        self.restart_count = 0
        self.looks: list[Look] = []
        self.errors: list[BaseException] = []

    def __enter__(self) -> Watch:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    def _restart_all(self) -> None:
        while not self._over.wait(RESTART_EVERY_S):
            self._restart(1 + self.restart_count % len(self._kafka.node_ids))

    def _restart(self, node_id: int) -> None:
        self._kafka.stop_node(node_id)
        self._kafka.restart(node_id)
        for partition in range(PARTITIONS):
            self._kafka.wait_for_isr(
                self._topic, partition, count=len(self._kafka.node_ids), timeout_s=ISR_TIMEOUT_S
            )
        self.restart_count += 1

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.looks.append(Look.now(self._producers))

    def medians(self) -> tuple[Look, Look]:
        """Of the second quarter, when all is settled, and of the last."""
        quarter = len(self.looks) // 4
        parts = self.looks[quarter : 2 * quarter], self.looks[-quarter:]
        first, last = (
            Look(*(round(statistics.median(column)) for column in zip(*part, strict=True)))
            for part in parts
        )
        return first, last


class TransactionLoop:
    """One transaction after the other, every tenth of them aborted, for the time of a `with`."""

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self.committed: list[int] = []
        self.aborted_count = 0
        self.errors: list[BaseException] = []
        self._producer = producer
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transactions")

    def __enter__(self) -> TransactionLoop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._producer.init_transactions(CALL_S)
            number = 0
            while not self._over.wait(TRANSACTION_PAUSE_S):
                self._transact(number)
                number += 1
        except BaseException as error:
            self.errors.append(error)

    def _transact(self, number: int) -> None:
        try:
            self._producer.begin_transaction()
            for each in range(TRANSACTION_RECORDS):
                self._producer.send(self._topic, b"%d %d" % (number, each), partition=each % 2)
            if number % 10 != 9:
                self._producer.commit_transaction(CALL_S)
                self.committed.append(number)
                return
        except KafkaError as error:
            # A commit that times out after so long is no part of this.
            if not error.abortable or isinstance(error, KafkaTimeoutError):
                raise
        self._producer.abort_transaction(CALL_S)
        self.aborted_count += 1

    def expected(self) -> Iterator[tuple[int, bytes]]:
        """Partition and value of each committed record, partition by partition, in order."""
        for partition in range(2):
            for number in self.committed:
                for each in range(partition, TRANSACTION_RECORDS, 2):
                    yield partition, b"%d %d" % (number, each)


@pytest.mark.long
@time_limit(FULL_S + 1_800, least_s=400)
def test_a_rolling_restart_under_load_loses_nothing_and_nothing_grows(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    seconds = scaled(FULL_S, at_least=LEAST_S)
    name, transactions = topic(kafka3, PARTITIONS), topic(kafka3, 2)
    ledger = Ledger(Workload(RATE_PER_S * seconds, seed=5, largest_bytes=2_000, is_recent=True))
    settings = {
        "bootstrap_servers": kafka3.bootstrap_servers,
        "compression_type": "lz4",
        "metadata_max_age_ms": 5_000,
        "connections_max_idle_ms": 2_000,
    }
    with KafkaProducer(settings) as producer, KafkaProducer(settings, transactional_id=name) as txn:
        with (
            Watch(kafka3, name, (producer, txn)) as watch,
            TransactionLoop(txn, transactions) as loop,
        ):
            send_workload(producer, name, ledger, rate_per_s=RATE_PER_S)
        txn.flush(CALL_S)
        left_bytes = out_of_buffer(producer) + out_of_buffer(txn)
        counters = producer._engine.counters()
    first, last = watch.medians()
    print(
        f"{ledger.workload.count:,} records, {len(loop.committed):,} transactions and "
        f"{loop.aborted_count:,} aborted ones, {watch.restart_count} restarts in {seconds:,} s; "
        f"second quarter {first}, last quarter {last}; {counters}"
    )
    assert watch.errors + loop.errors == []
    assert watch.restart_count >= 1
    assert left_bytes == 0
    for grown, most in zip(map(int.__sub__, last, first), MAY_GROW, strict=True):
        assert grown <= most, (first, last)
    for stream in READERS.values():
        ledger.check(
            stream(kafka3.bootstrap_servers, name, timeout_s=seconds + ISR_TIMEOUT_S), PARTITIONS
        )
    found = stream_with_confluent(
        kafka3.bootstrap_servers, transactions, committed=True, timeout_s=seconds + ISR_TIMEOUT_S
    )
    rows = sorted(found, key=lambda each: (each.partition, each.offset))
    assert [(each.partition, each.value) for each in rows] == list(loop.expected())
