"""The million-record proof of test_million.py with TLS and SASL, and on our own broker.

Exactly once, in its key's order, with its bytes, headers and timestamp, where the producer said.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kafka_admin
import kafka_jars
from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.broker.client_settings import Login, Way, settings_for
from log_dump import DumpedBatch
from support.broker.own_broker import OwnBroker
from support.engine.senders import send_workload
from support.processes.scale import SCALE_PERCENT, scaled, time_limit
from support.records.java_reader import stream_with_java
from support.records.ledger import Ledger
from support.records.proof import DUMP_TIMEOUT_S, READ_TIMEOUT_S, Read, prove
from support.records.readers import (
    ReadRecord,
    Stream,
    stream_with_aiokafka,
    stream_with_confluent,
    stream_with_kafka_python,
)
from support.records.workload import Workload
from support.security.authority import CertificateAuthority
from support.security.secured_kafka import Secured, unsecured_token

RECORDS = 1_000_000
DEFAULT_PERCENT = 0.5
PARTITIONS = 6
PARTITIONS_OF_OURS = 3 if SCALE_PERCENT >= 100 else 1  # Java needs a JVM for each
TOPIC = "million"
# Renewed all the time only where there is time for it: sessions end with their tokens.
TOKEN_S = 5.0 if SCALE_PERCENT >= 100 else 60.0
USER, PASSWORD = "ada", "engine-no-1"
SHOWN = ("connection-creation-total", "successful-reauthentication-total", "record-retry-total")
STREAMS: dict[str, Stream] = {
    "librdkafka": stream_with_confluent,
    "kafka-python": stream_with_kafka_python,
    "aiokafka": stream_with_aiokafka,
}


def workload(seed: int) -> Workload:
    return Workload(scaled(RECORDS, default_percent=DEFAULT_PERCENT), seed=seed, is_recent=True)


@time_limit(2_400)
@pytest.mark.parametrize("listener", ["SCRAM", "TOKEN", "MUTUAL"])
def test_a_million_records_are_in_a_secured_kafka_exactly_as_sent(
    secured3: Secured, topic: TopicFactory, listener: str
) -> None:
    """SASL_SSL with SCRAM-SHA-512, and with tokens that are renewed all the time; mutual TLS."""
    kafka = secured3.kafka
    name = topic(kafka, PARTITIONS)
    ledger = Ledger(workload(31))
    settings: dict[str, Any] = {**secured3.client(listener)}
    tokens: list[str] = []
    if listener == "TOKEN":

        def token() -> tuple[str, float]:
            found = unsecured_token(TOKEN_S)
            tokens.append(found[0])
            return found

        settings["sasl.oauth.token.provider"] = token
    with KafkaProducer(settings) as producer:
        send_workload(producer, name, ledger)
        metrics = producer.metrics()["producer-metrics"]
    shown = {name: metrics[name] for name in SHOWN}
    print(f"{ledger.workload.count:,} records by {listener}; {len(tokens)} tokens; {shown}")
    assert metrics["record-error-total"] == 0
    assert metrics["failed-authentication-total"] == 0
    assert metrics["failed-reauthentication-total"] == 0
    if listener == "TOKEN":
        renewed = metrics["successful-reauthentication-total"]
        assert renewed > 0 or ledger.workload.count < RECORDS
        assert len(set(tokens)) == len(tokens) >= (3 if renewed else 1)

    def dump() -> list[list[DumpedBatch]]:
        return kafka.dump_logs(name, PARTITIONS, timeout_s=DUMP_TIMEOUT_S)

    prove(
        kafka.bootstrap_servers,
        name,
        ledger,
        PARTITIONS,
        # At the small size test_million.py is enough for Kafka's tool, which needs a JVM.
        dump=dump if ledger.workload.count == RECORDS else None,
    )


def over_sasl_ssl(broker: OwnBroker, authority: CertificateAuthority, folder: Path) -> list[Read]:
    """Readers by four clients, which log in by SCRAM-SHA-512 over TLS."""
    way = Way(
        broker.bootstrap("SECURE"),
        "SASL_SSL",
        authority.certificate.read_text(),
        Login("SCRAM-SHA-512", USER, PASSWORD),
    )

    def reader(flavour: str) -> Read:
        settings = settings_for(way, flavour)
        stream = STREAMS[flavour]
        return lambda ends: stream(
            broker.bootstrap_servers, TOPIC, ends, timeout_s=READ_TIMEOUT_S, settings=settings
        )

    properties = folder / "java.properties"
    lines = (f"{name}={value}" for name, value in settings_for(way, "java").items())
    properties.write_text(
        "".join(each.replace("\\", "\\\\").replace("\n", "\\n") + "\n" for each in lines)
    )

    def java(ends: Mapping[int, int]) -> Generator[ReadRecord, None, None]:
        return stream_with_java(TOPIC, ends, properties, timeout_s=READ_TIMEOUT_S)

    return [*map(reader, STREAMS), java]


@time_limit(2_400)
@pytest.mark.long
def test_a_million_records_are_in_our_secured_broker_and_four_clients_find_them(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """B-A4.7, B-A7.5, B-C1, B-D1: written and read back over SASL_SSL."""
    kafka_jars.resolve()
    ledger = Ledger(workload(32))
    identity = authority.issue("our broker")
    options = ("--tls-certificate", str(identity.both), "--sasl-user", f"{USER}:{PASSWORD}")
    listeners = {"CLEAR": "PLAINTEXT", "SECURE": "SASL_SSL"}
    with OwnBroker(tmp_path, 3, options, listeners) as broker:
        kafka_admin.create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS_OF_OURS, 1, {})
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap("SECURE"),
            security_protocol="SASL_SSL",
            ssl_cafile=str(authority.certificate),
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username=USER,
            sasl_password=PASSWORD,
        )
        with producer:
            send_workload(producer, TOPIC, ledger)
        prove(
            broker.bootstrap_servers,
            TOPIC,
            ledger,
            PARTITIONS_OF_OURS,
            reads=over_sasl_ssl(broker, authority, tmp_path),
        )
