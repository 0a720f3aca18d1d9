"""Every way to acknowledge, into Apache Kafka; and what happens when replicas are missing."""

from __future__ import annotations

import time

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import DeliveryTimeoutError
from kafka_cluster import KafkaCluster
from support.engine.senders import send_workload
from support.records.ledger import Ledger
from support.records.readers import READERS, end_offsets, read_with_confluent
from support.records.workload import Workload

PARTITIONS = 3
RECORDS = 4_000
WAIT_S = 30.0
ISR_TIMEOUT_S = 60.0


def wait_for_records(kafka: KafkaCluster, name: str, count: int) -> None:
    """With acks=0 the records may still be on their way when the producer has forgotten them."""
    deadline = time.monotonic() + WAIT_S
    while (found := sum(end_offsets(kafka.bootstrap_servers, name).values())) != count:
        assert time.monotonic() < deadline, f"{found} of {count} records after {WAIT_S} s"
        time.sleep(0.05)


def prove(kafka: KafkaCluster, name: str, ledger: Ledger) -> None:
    wait_for_records(kafka, name, ledger.workload.count)
    for stream in READERS.values():
        ledger.check(stream(kafka.bootstrap_servers, name), PARTITIONS)


@pytest.mark.parametrize(
    ("acks", "idempotent", "in_flight"),
    [
        ("all", True, 5),
        ("all", True, 1),
        ("all", False, 5),
        ("all", False, 1),
        ("1", False, 5),
        ("0", False, 5),
    ],
)
def test_records_are_there_once_and_in_order_with_any_acks(
    kafka3: KafkaCluster, topic: TopicFactory, acks: str, idempotent: bool, in_flight: int
) -> None:
    """P-B.2, P-F.3: a producer id and sequences only where they are asked for."""
    name = topic(kafka3, PARTITIONS)
    ledger = Ledger(Workload(RECORDS), has_offsets=acks != "0")
    settings = {
        "bootstrap_servers": kafka3.bootstrap_servers,
        "acks": acks,
        "enable_idempotence": idempotent,
        "max_in_flight_requests_per_connection": in_flight,
        "batch_size": 16_384,
    }
    with KafkaProducer(settings) as producer:
        send_workload(producer, name, ledger)
    prove(kafka3, name, ledger)
    for batches in kafka3.dump_logs(name, PARTITIONS):
        assert len(batches) > 1
        if not idempotent:
            assert {batch.number("producerId") for batch in batches} == {-1}
            continue
        assert len({batch.fields["producerId"] for batch in batches}) == 1
        assert {batch.number("producerEpoch") for batch in batches} == {0}
        due = 0
        for batch in batches:
            assert batch.number("producerId") >= 0
            assert batch.number("baseSequence") == due
            due = batch.number("lastSequence") + 1


@pytest.mark.slow
def test_too_few_replicas_in_sync_means_retries_then_expiry_and_no_record_twice(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    """P-F.4 (NOT_ENOUGH_REPLICAS), P-D.8.2: the error says how often it was tried and why not."""
    name = topic(kafka3, 1, config={"min.insync.replicas": "3"})
    follower = next(node for node in kafka3.node_ids if node != kafka3.leader(name, 0))
    patient = KafkaProducer(bootstrap_servers=kafka3.bootstrap_servers)
    hasty = KafkaProducer(
        bootstrap_servers=kafka3.bootstrap_servers,
        request_timeout_ms=2_000,
        delivery_timeout_ms=6_000,
    )
    with patient, hasty:
        assert patient.send(name, b"before").result(WAIT_S).offset == 0
        hasty.warmup(name)
        kafka3.kill(follower)
        try:
            kafka3.wait_for_isr(name, 0, count=2, timeout_s=ISR_TIMEOUT_S)
            kept = patient.send(name, b"kept")
            lost = hasty.send(name, b"lost")
            with pytest.raises(DeliveryTimeoutError) as caught:
                lost.result(WAIT_S)
            assert caught.value.attempts > 1
            assert caught.value.delivery_timeout_ms == 6_000
            assert not kept.done()
        finally:
            kafka3.restart(follower)
        kafka3.wait_for_isr(name, 0, count=3, timeout_s=ISR_TIMEOUT_S)
        offset = kept.result(WAIT_S).offset
        again = hasty.send(name, b"again").result(WAIT_S).offset
    values = [each.value for each in read_with_confluent(kafka3.bootstrap_servers, name)[0]]
    assert [value for value in values if value != b"lost"] == [b"before", b"kept", b"again"]
    # The leader may have written it before it noticed (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
    assert values.count(b"lost") <= 1
    assert b"lost" not in values[values.index(b"again") :]
    assert (values.index(b"kept"), values.index(b"again")) == (offset, again)
