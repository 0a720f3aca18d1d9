"""Ten minutes under load while the nodes are restarted in turn: nothing lost, memory stays flat."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.processes.scale import scaled, time_limit
from support.records.ledger import Ledger
from support.records.readers import READERS
from support.records.workload import Workload

RATE_PER_S = 5_000
FULL_S = 600
LEAST_S = 30
PARTITIONS = 6
RESTART_EVERY_S = 20.0
ISR_TIMEOUT_S = 60.0
SETTLED_AFTER = 0.25
MIB = 1 << 20
PAGE_BYTES = 4096


def resident_bytes() -> int:
    """This process's memory that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


class Watch:
    """Restarts the nodes in turn, and samples this process, until told to stop."""

    def __init__(self, kafka: KafkaCluster, topic: str, seconds: float) -> None:
        self._kafka = kafka
        self._topic = topic
        self._settled_s = time.monotonic() + seconds * SETTLED_AFTER
        self.over = threading.Event()
        self.restart_count = 0
        self.settled_bytes: int | None = None
        self.errors: list[BaseException] = []

    def run(self) -> None:
        try:
            while not self.over.wait(RESTART_EVERY_S):
                if self.settled_bytes is None and time.monotonic() > self._settled_s:
                    self.settled_bytes = resident_bytes()
                self._restart(1 + self.restart_count % len(self._kafka.node_ids))
        except BaseException as error:
            self.errors.append(error)

    def _restart(self, node_id: int) -> None:
        self._kafka.stop_node(node_id)
        self._kafka.restart(node_id)
        for partition in range(PARTITIONS):
            self._kafka.wait_for_isr(
                self._topic, partition, count=len(self._kafka.node_ids), timeout_s=ISR_TIMEOUT_S
            )
        self.restart_count += 1


@pytest.mark.long
@time_limit(1400, least_s=200)
def test_a_rolling_restart_under_load_loses_nothing_and_memory_stays_flat(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    seconds = scaled(FULL_S, at_least=LEAST_S)
    name = topic(kafka3, PARTITIONS)
    ledger = Ledger(Workload(RATE_PER_S * seconds, seed=5, largest_bytes=2_000))
    settings = {
        "bootstrap_servers": kafka3.bootstrap_servers,
        "compression_type": "lz4",
        "metadata_max_age_ms": 5_000,
        "connections_max_idle_ms": 2_000,
    }
    with KafkaProducer(settings) as producer:
        watch = Watch(kafka3, name, seconds)
        thread = threading.Thread(target=watch.run, name="watch")
        thread.start()
        try:
            send_workload(producer, name, ledger, rate_per_s=RATE_PER_S)
        finally:
            ended_bytes = resident_bytes()
            watch.over.set()
            thread.join()
        counters = producer._engine.counters()
    print(
        f"{ledger.workload.count:,} records, {watch.restart_count} restarts; bytes in RAM when "
        f"settled {watch.settled_bytes}, at the end {ended_bytes}; {counters}"
    )
    assert watch.errors == []
    assert watch.restart_count >= 1
    assert watch.settled_bytes is not None
    assert ended_bytes - watch.settled_bytes < 16 * MIB
    for stream in READERS.values():
        ledger.check(
            stream(kafka3.bootstrap_servers, name, timeout_s=seconds + ISR_TIMEOUT_S), PARTITIONS
        )
