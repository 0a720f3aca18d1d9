"""Leaders killed under load: nothing lost, nothing twice, order kept.

20,000 records a second into three nodes, replication 3, min.insync.replicas 2. Again and again the
leader of the partition that took most is killed (SIGKILL) and started again. It is stopped first
until requests wait at it, so that each kill costs answers; the next kill comes only when every
replica is in sync, because Kafka itself promises nothing for more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import DeliveryTimeoutError
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.processes.scale import scaled, time_limit
from support.records.ledger import Ledger
from support.records.readers import READERS, end_offsets
from support.records.workload import Workload

RATE_PER_S = 20_000
LEAST_RATE_PER_S = 5_000
FULL_S = 100
LEAST_S = 16
KILLS = 5
PARTITIONS = 6
REPLICAS = 3
ISR_TIMEOUT_S = 60.0
LARGEST_BYTES = 300
QUIET_S = 1.0
HANG_RATE_PER_S = 5_000
HANG_RUN_S = 8
READ_TIMEOUT_S = 600.0
IN_FLIGHT = 5  # max_in_flight_requests_per_connection
IN_FLIGHT_TIMEOUT_S = 10.0


class Killer:
    """Kills leaders, one after the other, as long as records are sent.

    `kills` is what happened: (partition, node, records sent when the node was killed).
    """

    def __init__(self, kafka: KafkaCluster, topic: str, producer: KafkaProducer) -> None:
        self._kafka = kafka
        self._topic = topic
        self._producer = producer
        self._down: int | None = None
        self.kills: list[tuple[int, int, int]] = []
        self.errors: list[BaseException] = []

    def run(self, count: int, over: threading.Event) -> None:
        """Kill `count` times, or until `over`."""
        try:
            marks = end_offsets(self._kafka.bootstrap_servers, self._topic)
            while len(self.kills) < count and not over.wait(QUIET_S):
                ends = end_offsets(self._kafka.bootstrap_servers, self._topic)
                busiest = max(ends, key=lambda index: ends[index] - marks[index])
                self._kill_leader(busiest)
                marks = ends
        except BaseException as error:
            self.errors.append(error)

    def _kill_leader(self, partition: int) -> None:
        node = self._kafka.leader(self._topic, partition)
        self._kafka.pause(node)
        try:
            sent = self._wait_for_in_flight()
        finally:
            self._kafka.kill(node)
            self._down = node
        self.kills.append((partition, node, sent))
        self._kafka.wait_for_leader(
            self._topic, partition, other_than=node, timeout_s=ISR_TIMEOUT_S
        )
        self.repair()
        for index in range(PARTITIONS):
            self._kafka.wait_for_isr(self._topic, index, count=REPLICAS, timeout_s=ISR_TIMEOUT_S)

    def _wait_for_in_flight(self) -> int:
        """Until one request at least is at the stopped node; return the records sent by then.

        The others' requests wait for its replicas (acks=all), at most IN_FLIGHT at each of them.
        """
        deadline_s = time.monotonic() + IN_FLIGHT_TIMEOUT_S
        while time.monotonic() < deadline_s:
            counters = self._producer._engine.counters()
            if counters["produce_requests"] - counters["responses"] > (REPLICAS - 1) * IN_FLIGHT:
                return counters["records_sent"]
            time.sleep(0.01)
        raise TimeoutError(f"no requests at the stopped node: {counters}")

    def repair(self) -> None:
        """Start the node again that is down, if one is."""
        if self._down is not None:
            self._kafka.restart(self._down)
            self._down = None


@contextmanager
def killing(killer: Killer, count: int) -> Iterator[threading.Event]:
    """Kill while the body runs; what is yielded is set after that. Then all nodes are there."""
    over, killed = threading.Event(), threading.Event()

    def run() -> None:
        killer.run(count, over)
        killed.set()

    thread = threading.Thread(target=run, name="killer")
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
        killer.repair()
    if killer.errors:
        raise killer.errors[0]


@time_limit(1200, least_s=150)
@pytest.mark.long
def test_killed_leaders_cost_no_record_and_double_none(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    seconds = scaled(FULL_S, at_least=LEAST_S)
    kills = max(1, KILLS * seconds // FULL_S)
    name = topic(kafka3, PARTITIONS, config={"min.insync.replicas": "2"})
    rate_per_s = scaled(RATE_PER_S, at_least=LEAST_RATE_PER_S)
    ledger = Ledger(
        Workload(rate_per_s * seconds, seed=4, largest_bytes=LARGEST_BYTES, is_recent=True)
    )
    with KafkaProducer(bootstrap_servers=kafka3.bootstrap_servers) as producer:
        producer.warmup(name)
        killer = Killer(kafka3, name, producer)
        began_s = time.monotonic()
        with killing(killer, kills) as killed:
            send_workload(producer, name, ledger, rate_per_s=rate_per_s, happened=killed)
        counters = producer._engine.counters()
    print(
        f"{ledger.workload.count:,} records in {time.monotonic() - began_s:.1f} s; kills "
        f"(partition, node, records sent before): {killer.kills}; {counters}"
    )
    assert len(killer.kills) == kills
    assert counters["records_retried"] > 0
    prove(kafka3, name, ledger)


def prove(kafka: KafkaCluster, name: str, ledger: Ledger) -> None:
    """Read the topic with every reader; raise the first difference."""
    for stream in READERS.values():
        found = stream(kafka.bootstrap_servers, name, timeout_s=READ_TIMEOUT_S)
        ledger.check(found, PARTITIONS)


def test_what_expires_while_a_leader_hangs_is_there_at_most_once_and_the_rest_exactly_once(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    """P-D.8, P-F.5.7: a request may be under way when its batches expire, and be written later."""
    name = topic(kafka3, PARTITIONS, config={"min.insync.replicas": "2"})
    ledger = Ledger(Workload(HANG_RATE_PER_S * HANG_RUN_S, seed=6, largest_bytes=LARGEST_BYTES))
    settings = {
        "bootstrap_servers": kafka3.bootstrap_servers,
        "request_timeout_ms": 700,
        "delivery_timeout_ms": 1_500,
    }
    with KafkaProducer(settings) as producer:
        producer.warmup(name)
        hanging = kafka3.leader(name, 0)

        def hang() -> None:
            time.sleep(QUIET_S)
            kafka3.pause(hanging)
            try:
                kafka3.wait_for_leader(name, 0, other_than=hanging, timeout_s=ISR_TIMEOUT_S)
            finally:
                kafka3.resume(hanging)

        thread = threading.Thread(target=hang, name="hang")
        thread.start()
        try:
            send_workload(
                producer,
                name,
                ledger,
                rate_per_s=HANG_RATE_PER_S,
                may_fail=(DeliveryTimeoutError,),
            )
        finally:
            thread.join()
        print(f"{ledger.failed_count():,} records expired; {producer._engine.counters()}")
    assert 0 < ledger.failed_count() < ledger.workload.count
    for index in range(PARTITIONS):
        kafka3.wait_for_isr(name, index, count=REPLICAS, timeout_s=ISR_TIMEOUT_S)
    prove(kafka3, name, ledger)
