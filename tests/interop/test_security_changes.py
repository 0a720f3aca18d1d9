"""Certificates, authorities and passwords that change while many records are under way.

Each record is read back exactly once, in its key's order, where the producer said it is.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafka_admin
from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.broker import Broker
from support.broker.own_broker import OwnBroker
from support.engine.senders import send_workload
from support.processes.scale import SCALE_PERCENT, time_limit
from support.records.ledger import Ledger
from support.records.proof import prove
from support.records.workload import Workload
from support.security import secured_kafka
from support.security.authority import CertificateAuthority, Identity
from support.security.secured_kafka import CHANGING, Secured

RATE_PER_S = 1_500
FULL_RATE_PER_S = 20_000
RUN_S = 4
FULL_RUN_S = 30
IS_FULL = SCALE_PERCENT >= 100
PARTITIONS = 3
TOPIC = "changes"
LARGEST_BYTES = 300
CHANGES = 5
DOWN_S = 0.5
PATIENCE_S = 60.0
DELIVERY_MS = 600_000  # a node's start may take long on a busy machine


def workload(seed: int) -> Workload:
    rate, seconds = (FULL_RATE_PER_S, FULL_RUN_S) if IS_FULL else (RATE_PER_S, RUN_S)
    return Workload(rate * seconds, seed=seed, largest_bytes=LARGEST_BYTES, is_recent=True)


def send_during(
    change: Callable[[], None], producer: KafkaProducer, topic: str, ledger: Ledger
) -> None:
    """Send the workload while `change` runs in a thread; what it raises is raised at the end."""
    rate = FULL_RATE_PER_S if IS_FULL else RATE_PER_S
    errors: list[BaseException] = []
    changed = threading.Event()

    def run() -> None:
        try:
            change()
        except BaseException as error:
            errors.append(error)
        changed.set()

    thread = threading.Thread(target=run, name="change")
    thread.start()
    try:
        send_workload(producer, topic, ledger, rate_per_s=rate, happened=changed)
    finally:
        thread.join()
    if errors:
        raise errors[0]


def wait_for_acknowledgements(producer: KafkaProducer, more: int) -> None:
    """Until so many more records have been acknowledged."""
    goal = producer._engine.counters()["records_acked"] + more
    deadline_s = time.monotonic() + PATIENCE_S
    while producer._engine.counters()["records_acked"] < goal:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def wait_for_a_record_under_way(producer: KafkaProducer) -> None:
    """Until a request waits for its answer: what happens now costs one."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        counters = producer._engine.counters()
        if counters["produce_requests"] > counters["responses"]:
            return
        assert time.monotonic() < deadline_s


def put(path: Path, *sources: Path) -> None:
    """Replace a file's content in one go, as tools that renew certificates do."""
    part = path.with_suffix(".part")
    part.write_bytes(b"".join(each.read_bytes() for each in sources))
    part.replace(path)


def check_shown(address: str, authority: CertificateAuthority) -> None:
    """The handshake with a server fails if it has no certificate of this authority's."""
    context = ssl.create_default_context(cafile=authority.certificate)
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), PATIENCE_S) as connection,
        context.wrap_socket(connection, server_hostname=host) as tls,
    ):
        assert tls.version() == "TLSv1.3"


@pytest.mark.long  # nodes start again; `make test` has our own broker do so
@time_limit(600, least_s=240)
def test_kafkas_key_store_and_our_trust_store_change_with_a_restart_of_the_node(
    secured3: Secured, topic: TopicFactory, tmp_path: Path
) -> None:
    """Each partition is on one node: nothing of it goes before its new certificate is trusted."""
    kafka = secured3.kafka
    name = topic(kafka, PARTITIONS, replication=1, config={"min.insync.replicas": "1"})
    newer = CertificateAuthority(tmp_path / "newer", "newer authority")
    trusted = tmp_path / "trusted.pem"
    shutil.copy(secured3.authority.certificate, trusted)
    key_store = secured3.authority.issue("changing broker").both
    nodes = list(kafka.node_ids) if IS_FULL else [kafka.leader(name, 0)]
    ledger = Ledger(workload(41))
    settings = {
        "bootstrap.servers": kafka.bootstrap(CHANGING),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "delivery.timeout.ms": str(DELIVERY_MS),
    }
    with KafkaProducer(settings) as producer:
        producer.warmup(name)

        def change() -> None:
            # Of the two authorities neither is enough as long as nodes differ.
            put(trusted, secured3.authority.certificate, newer.certificate)
            put(key_store, newer.issue("broker").both)
            for node in nodes:
                wait_for_acknowledgements(producer, RATE_PER_S // 10)
                wait_for_a_record_under_way(producer)
                kafka.stop_node(node)
                kafka.restart(node)
            if IS_FULL:
                put(trusted, newer.certificate)

        send_during(change, producer, name, ledger)
        counters = producer._engine.counters()
        metrics = producer.metrics()["producer-metrics"]
    print(f"{ledger.workload.count:,} records, nodes {nodes} restarted; {counters}")
    assert metrics["connection-close-total"] >= len(nodes)
    assert metrics["record-error-total"] == 0
    for node in nodes:
        check_shown(kafka.bootstrap(CHANGING).split(",")[node - 1], newer)
    prove(kafka.bootstrap_servers, name, ledger, PARTITIONS)


@time_limit(600, least_s=240)
def test_a_broker_that_is_killed_comes_back_with_another_certificate(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """New files at the same paths, at both ends; killed in the middle of requests (B-C6, B-C8)."""
    newer = CertificateAuthority(tmp_path / "newer", "newer authority")
    trusted, shown = tmp_path / "trusted.pem", tmp_path / "shown.pem"
    shutil.copy(authority.certificate, trusted)
    shutil.copy(authority.issue("own broker").both, shown)
    ledger = Ledger(workload(42))
    listeners = {"CLEAR": "PLAINTEXT", "SECURE": "SSL"}
    options = ("--tls-certificate", str(shown))
    with OwnBroker(tmp_path, 1, options, listeners) as broker:
        kafka_admin.create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS, 1, {})
        with trusting(broker.bootstrap("SECURE"), trusted) as producer:
            producer.warmup(TOPIC)

            def change() -> None:
                wait_for_acknowledgements(producer, RATE_PER_S)
                wait_for_a_record_under_way(producer)
                broker.kill()
                put(trusted, newer.certificate)
                put(shown, newer.issue("own broker").both)
                time.sleep(DOWN_S)
                broker.restart()

            send_during(change, producer, TOPIC, ledger)
            counters = producer._engine.counters()
        assert counters["connections_closed"] > 0
        check_shown(broker.bootstrap("SECURE"), newer)
        prove(broker.bootstrap_servers, TOPIC, ledger, PARTITIONS)


def trusting(bootstrap_servers: str, trusted: Path) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        security_protocol="SSL",
        ssl_truststore_location=str(trusted),
        delivery_timeout_ms=DELIVERY_MS,
    )


@time_limit(600, least_s=240)
def test_certificates_that_a_running_broker_replaces(tmp_path: Path) -> None:
    """B-A4.7: by `replace_certificate`; answers are lost, and each new connection has to trust."""
    authorities = [
        CertificateAuthority(tmp_path / str(number), f"authority {number}")
        for number in range(CHANGES + 1)
    ]
    shown: list[Identity] = [each.issue("broker") for each in authorities]
    trusted = tmp_path / "trusted.pem"
    put(trusted, authorities[0].certificate)
    ledger = Ledger(workload(43))
    config: dict[str, Any] = {
        "ssl_certfile": str(shown[0].certificate),
        "ssl_keyfile": str(shown[0].key),
        "listeners": {"CLEAR": "PLAINTEXT", "SECURE": "SSL"},
    }
    with Broker(topics={TOPIC: PARTITIONS}, **config) as broker:
        secure, clear = (
            broker.client_settings(listener=each)["bootstrap.servers"]
            for each in ("SECURE", "CLEAR")
        )
        with trusting(secure, trusted) as producer:
            producer.warmup(TOPIC)

            def change() -> None:
                for authority, identity in zip(authorities[1:], shown[1:], strict=True):
                    wait_for_acknowledgements(producer, RATE_PER_S // 2)
                    broker.replace_certificate(identity.certificate, identity.key)
                    put(trusted, authority.certificate)
                    broker.faults.lose_reply("Produce")

            send_during(change, producer, TOPIC, ledger)
            counters = producer._engine.counters()
            metrics = producer.metrics()["producer-metrics"]
        assert counters["records_retried"] > 0
        assert metrics["connection-close-total"] >= CHANGES
        prove(clear, TOPIC, ledger, PARTITIONS)


@time_limit(600, least_s=240)
def test_a_password_that_changes_under_load_costs_no_record(
    secured: Secured, topic: TopicFactory
) -> None:
    """First at both sides at once; then at the broker alone, until it refuses what we have."""
    kafka = secured.kafka
    name = topic(kafka, PARTITIONS)
    secured_kafka.set_password(kafka, "eve", "first")
    ledger = Ledger(workload(44))
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap("CLEAR"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="eve",
        sasl_password="first",
        delivery_timeout_ms=DELIVERY_MS,
    ) as producer:
        producer.warmup(name)

        def total(kind: str) -> float:
            return float(producer.metrics()["producer-metrics"][f"{kind}-total"])

        def change() -> None:
            wait_for_acknowledgements(producer, RATE_PER_S // 2)
            secured_kafka.set_password(kafka, "eve", "second")
            producer.set_sasl_credentials("eve", "second")
            wait_for_acknowledgements(producer, RATE_PER_S // 2)
            secured_kafka.set_password(kafka, "eve", "third")
            deadline_s = time.monotonic() + PATIENCE_S
            while total("failed-reauthentication") + total("failed-authentication") == 0:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            producer.set_sasl_credentials("eve", "third")

        send_during(change, producer, name, ledger)
        counters = producer._engine.counters()
        assert total("record-error") == 0
    print(f"{ledger.workload.count:,} records; {counters}")
    prove(kafka.bootstrap_servers, name, ledger, PARTITIONS)
