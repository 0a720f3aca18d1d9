"""The million-record proof of tests/interop/test_million.py and a kill -9 proof, on our broker.

Read back by two other clients and by Kafka's own tool: each record exactly once, in its key's
order, with its bytes, headers and timestamp, where the producer was told it is.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import kafka_admin
import kafka_jars
import log_dump
from fastprod import KafkaProducer
from support.broker.own_broker import OwnBroker
from support.engine.senders import send_workload
from support.processes.scale import scaled, time_limit
from support.records.ledger import Ledger
from support.records.proof import DUMP_TIMEOUT_S, prove
from support.records.workload import Workload

RECORDS = 1_000_000
RECORDS_PER_CODEC = 200_000
PARTITIONS = 6
TOPIC = "million"
RATE_PER_S = 20_000
FULL_S = 100
LEAST_S = 4
KILLS = 5
LARGEST_BYTES = 300
DOWN_S = 0.5


def prove_in_broker(broker: OwnBroker, ledger: Ledger, codec: str) -> None:
    """With every reader and Kafka's tool."""
    segments = [
        sorted((broker.data_dir / f"{TOPIC}-{partition}").glob("*.log"))
        for partition in range(PARTITIONS)
    ]
    prove(
        broker.bootstrap_servers,
        TOPIC,
        ledger,
        PARTITIONS,
        dump=lambda: log_dump.dump_partitions(segments, DUMP_TIMEOUT_S),
        codec=codec,
    )


@time_limit(2400)
@pytest.mark.parametrize(
    ("codec", "count"),
    [
        ("none", RECORDS),
        ("zstd", RECORDS_PER_CODEC),
        *(
            pytest.param(each, RECORDS_PER_CODEC, marks=pytest.mark.long)
            for each in ("gzip", "snappy", "lz4")
        ),
    ],
)
def test_a_million_records_are_in_our_broker_exactly_as_sent(
    tmp_path: Path, codec: str, count: int
) -> None:
    """B-C1, B-C2, B-C3, B-D1."""
    kafka_jars.resolve()
    ledger = Ledger(Workload(scaled(count), seed=21, is_recent=True))
    with OwnBroker(tmp_path, nodes=3) as broker:
        kafka_admin.create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS, 1, {})
        settings = {"bootstrap_servers": broker.bootstrap_servers, "compression_type": codec}
        with KafkaProducer(settings) as producer:
            send_workload(producer, TOPIC, ledger)
        prove_in_broker(broker, ledger, codec)


class Killer:
    """Kills the broker and starts it again, so many times while records are sent."""

    def __init__(self, broker: OwnBroker, count: int, period_s: float) -> None:
        self._broker = broker
        self._count = count
        self._period_s = period_s
        self.kills = 0
        self.over = threading.Event()
        self.has_ended = threading.Event()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        try:
            while self.kills < self._count and not self.over.wait(self._period_s):
                self._broker.kill()
                self.kills += 1
                time.sleep(DOWN_S)
                self._broker.restart()
        except BaseException as error:
            self.errors.append(error)
        self.has_ended.set()


@pytest.mark.slow
@time_limit(1200, least_s=150)
def test_a_killed_broker_costs_no_record_and_doubles_none(tmp_path: Path) -> None:
    """B-C8: what was acknowledged is there, and retries of it are known (B-C6)."""
    kafka_jars.resolve()
    seconds = scaled(FULL_S, at_least=LEAST_S)
    kills = max(2, KILLS * seconds // FULL_S)
    ledger = Ledger(
        Workload(RATE_PER_S * seconds, seed=22, largest_bytes=LARGEST_BYTES, is_recent=True)
    )
    with OwnBroker(tmp_path) as broker:
        kafka_admin.create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS, 1, {})
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.warmup(TOPIC)
            # Half of the time is left for slow starts.
            killer = Killer(broker, kills, seconds / (4 * kills + 1))
            thread = threading.Thread(target=killer.run, name="killer")
            thread.start()
            try:
                send_workload(
                    producer, TOPIC, ledger, rate_per_s=RATE_PER_S, happened=killer.has_ended
                )
            finally:
                killer.over.set()
                thread.join()
            counters = producer._engine.counters()
        print(f"{ledger.workload.count:,} records, {killer.kills} kills; {counters}")
        assert killer.errors == []
        assert killer.kills == kills
        assert counters["records_retried"] > 0
        prove_in_broker(broker, ledger, "none")
