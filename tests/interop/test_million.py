"""A million records of every kind into Apache Kafka, read back by two other clients.

Each is there exactly once, in its key's order, with its bytes, headers and timestamp, where the
producer said it is; and Kafka's own tool accepts the segments record by record.
"""

from __future__ import annotations

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.processes.scale import scaled, time_limit
from support.records.ledger import Ledger
from support.records.proof import DUMP_TIMEOUT_S, prove
from support.records.workload import Workload

RECORDS = 1_000_000
RECORDS_PER_CODEC = 200_000
PARTITIONS = 6
SEED = 20


def prove_in_kafka(kafka: KafkaCluster, name: str, ledger: Ledger, codec: str) -> None:
    """With every reader and Kafka's tool."""
    prove(
        kafka.bootstrap_servers,
        name,
        ledger,
        PARTITIONS,
        dump=lambda: kafka.dump_logs(name, PARTITIONS, timeout_s=DUMP_TIMEOUT_S),
        codec=codec,
    )


@time_limit(2400)
def test_a_million_records_with_default_settings_are_in_kafka_exactly_as_sent(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka3, PARTITIONS)
    ledger = Ledger(Workload(scaled(RECORDS), seed=SEED, is_recent=True))
    with KafkaProducer(bootstrap_servers=kafka3.bootstrap_servers) as producer:
        send_workload(producer, name, ledger)
    prove_in_kafka(kafka3, name, ledger, "none")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@time_limit(1200)
def test_compressed_records_are_in_kafka_exactly_as_sent(
    kafka3: KafkaCluster, topic: TopicFactory, codec: str
) -> None:
    name = topic(kafka3, PARTITIONS)
    ledger = Ledger(Workload(scaled(RECORDS_PER_CODEC), seed=SEED + 1, is_recent=True))
    settings = {"bootstrap_servers": kafka3.bootstrap_servers, "compression_type": codec}
    with KafkaProducer(settings) as producer:
        send_workload(producer, name, ledger)
    prove_in_kafka(kafka3, name, ledger, codec)
