"""Transactions on Apache Kafka, read back by confluent-kafka (P-A.8, P-I.4, P-I.7, P-I.8).

Each under the protocol of Kafka 4 (transaction.version 2, KIP-890) and the one before it.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer

from conftest import TopicFactory
from fastprod import KafkaProducer
from fastprod.errors import ConfigError, KafkaError, ProducerFencedError
from fastprod.protocol.api_keys import API_VERSIONS, FIND_COORDINATOR, INIT_PRODUCER_ID
from kafka_cluster import KafkaCluster
from support.oracle.kio_codec import decode_response, encode_request
from support.records.readers import read_with_confluent

WAIT_S = 60.0
READERS_TIMEOUT_S = 20.0
INPUTS = 1_000
LEVEL = "transaction.version"


@pytest.fixture(scope="module")
def old_kafka() -> Iterator[KafkaCluster]:
    """A node with the protocol before KIP-890."""
    with KafkaCluster(1) as cluster:
        cluster.set_feature(LEVEL, 1)
        yield cluster


@pytest.fixture(params=[1, 2], ids=["before KIP-890", "KIP-890"])
def cluster(
    request: pytest.FixtureRequest, kafka: KafkaCluster, old_kafka: KafkaCluster
) -> KafkaCluster:
    return kafka if request.param == 2 else old_kafka


def new_id() -> str:
    return f"ledger-{uuid.uuid4().hex[:8]}"


def transactional(cluster: KafkaCluster, transactional_id: str, **settings: Any) -> KafkaProducer:
    """A producer that is ready for transactions."""
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=transactional_id, **settings
    )
    producer.init_transactions(WAIT_S)
    return producer


def values(
    cluster: KafkaCluster, topic: str, *, committed: bool = True
) -> dict[int, list[bytes | None]]:
    """The values of each partition, in order."""
    found = read_with_confluent(cluster.bootstrap_servers, topic, committed=committed)
    return {index: [record.value for record in records] for index, records in found.items()}


def test_what_is_committed_is_there_and_what_is_aborted_is_not(
    cluster: KafkaCluster, topic: TopicFactory
) -> None:
    """P-E.5, P-A.8.5, P-A.8.6: record by record, in order; who reads everything sees both."""
    name = topic(cluster, partitions=2)
    everything: dict[int, list[bytes | None]] = {0: [], 1: []}
    committed: dict[int, list[bytes | None]] = {0: [], 1: []}
    with transactional(cluster, new_id()) as producer:
        for turn in range(6):
            producer.begin_transaction()
            for number in range(50):
                value = b"%d-%d" % (turn, number)
                future = producer.send(name, value, partition=number % 2)
                everything[number % 2].append(value)
                if turn % 3 != 1:
                    committed[number % 2].append(value)
            if turn % 3 == 1:
                future.result(WAIT_S)
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
            else:
                producer.commit_transaction(WAIT_S)
    assert values(cluster, name, committed=False) == everything
    assert values(cluster, name) == committed


def test_a_transaction_spans_many_partitions_of_three_nodes(
    kafka3: KafkaCluster, topic: TopicFactory
) -> None:
    """P-I.2.1, P-I.4"""
    name = topic(kafka3, partitions=12)
    rows = [b"%d" % number for number in range(6_000)]
    partitions = [number % 12 for number in range(len(rows))]
    with transactional(kafka3, new_id(), compression_type="lz4") as producer:
        for turn in range(4):
            producer.begin_transaction()
            producer.send_many(name, rows, partitions=partitions)
            (producer.abort_transaction if turn == 2 else producer.commit_transaction)(WAIT_S)
    expected = {index: rows[index::12] * 3 for index in range(12)}
    assert values(kafka3, name) == expected


def send_and_commit(producer: KafkaProducer, topic: str) -> None:
    producer.send(topic, b"zombie")
    producer.commit_transaction(WAIT_S)


def test_a_zombie_is_fenced(cluster: KafkaCluster, topic: TopicFactory) -> None:
    """P-A.8.2, P-I.6: what it has left open is aborted, and nothing of it comes later."""
    name = topic(cluster)
    transactional_id = new_id()
    zombie = transactional(cluster, transactional_id)
    zombie.begin_transaction()
    zombie.send(name, b"left open").result(WAIT_S)
    with transactional(cluster, transactional_id) as producer:
        producer.begin_transaction()
        producer.send(name, b"new").result(WAIT_S)
        producer.commit_transaction(WAIT_S)
        with pytest.raises(KafkaError) as caught:
            send_and_commit(zombie, name)
        if not isinstance(caught.value, ProducerFencedError):
            assert caught.value.abortable
            with pytest.raises(ProducerFencedError) as fenced:
                zombie.abort_transaction(WAIT_S)
            caught = fenced
        assert caught.value.fatal
        with pytest.raises(ProducerFencedError):
            zombie.begin_transaction()
        with pytest.raises(ProducerFencedError):
            zombie.send(name, b"zombie")
    zombie.close()
    assert values(cluster, name) == {0: [b"new"]}


def test_a_loop_of_reading_and_writing_is_exactly_once(
    cluster: KafkaCluster, topic: TopicFactory
) -> None:
    """P-A.8.4, P-I.5, KIP-447: aborted and taken up again, by another producer, too."""
    source, target = topic(cluster), topic(cluster)
    inputs = [b"%d" % number for number in range(INPUTS)]
    feeder = ConfluentProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in inputs:
        feeder.produce(source, value, partition=0)
    assert feeder.flush(READERS_TIMEOUT_S) == 0
    group, transactional_id = new_id(), new_id()
    outcomes = ["commit", "abort", "leave", "commit", "raise"]
    turn = 0
    while copy_some(
        cluster, group, transactional_id, (source, target), outcomes[turn % len(outcomes)]
    ):
        turn += 1
    assert turn > len(outcomes)
    assert values(cluster, target) == {0: inputs}


def next_messages(consumer: Consumer, most: int) -> list[Message]:
    """The next ones, fewer at the end of the partition."""
    found: list[Message] = []
    while len(found) < most:
        message = consumer.poll(READERS_TIMEOUT_S)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == ConfluentError._PARTITION_EOF
            break
        found.append(message)
    return found


def copy_some(
    cluster: KafkaCluster, group: str, transactional_id: str, topics: tuple[str, str], outcome: str
) -> bool:
    """Copy up to 130 records in one transaction, which ends as `outcome` says; False: there are no
    more.
    """
    source, target = topics
    # Before it reads: this ends what was left open, and the group's offsets are known.
    producer = transactional(cluster, transactional_id)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.subscribe([source])
        messages = next_messages(consumer, 130)
        if not messages:
            return False
        producer.begin_transaction()
        for message in messages:
            producer.send(target, message.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
        )
        if outcome == "commit":
            producer.commit_transaction(WAIT_S)
        elif outcome == "abort":
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
        elif outcome == "leave":
            producer.flush(WAIT_S)
            producer.close(0)
        return True
    finally:
        consumer.close()
        producer.close()


def test_a_member_whose_group_has_gone_on_is_refused(
    cluster: KafkaCluster, topic: TopicFactory
) -> None:
    """P-I.5, P-I.6, P-L.143: it has left the group, and the transaction is to be aborted."""
    name = topic(cluster)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": new_id()})
    try:
        consumer.subscribe([name])
        while not consumer.assignment():
            consumer.poll(0.1)
        old = consumer.consumer_group_metadata()
    finally:
        consumer.close()
    with transactional(cluster, new_id()) as producer:
        producer.begin_transaction()
        producer.send(name, b"aborted")
        with pytest.raises(KafkaError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION") as caught:
            producer.send_offsets_to_transaction({(name, 0): 1}, old, WAIT_S)
        assert caught.value.abortable
        producer.abort_transaction(WAIT_S)
        with producer.transaction():
            producer.send(name, b"kept")
    assert values(cluster, name) == {0: [b"kept"]}


def test_a_transaction_that_takes_too_long_is_aborted_by_the_broker(
    cluster: KafkaCluster, topic: TopicFactory, request: pytest.FixtureRequest
) -> None:
    """P-I.8.1 (KIP-588): the producer learns it, and nothing of the transaction is there.

    With KIP-890 an abort makes the producer usable again; before, the coordinator fences it.
    """
    name = topic(cluster)
    transactional_id = new_id()
    with transactional(cluster, transactional_id, transaction_timeout_ms=1_000) as producer:
        producer.begin_transaction()
        error: KafkaError | None = None
        while error is None:  # the coordinator looks every ten seconds
            try:
                error = producer.send(name, b"late").exception(WAIT_S)
            except KafkaError as refused:
                error = refused
        with pytest.raises(KafkaError) as caught:
            producer.commit_transaction(WAIT_S)
        assert caught.value.abortable
        if request.node.callspec.id == "KIP-890":
            producer.abort_transaction(WAIT_S)
            with producer.transaction():
                producer.send(name, b"same producer")
        else:
            with pytest.raises(ProducerFencedError):
                producer.abort_transaction(WAIT_S)
    with transactional(cluster, transactional_id) as producer, producer.transaction():
        producer.send(name, b"next producer")
    is_new = request.node.callspec.id == "KIP-890"
    assert values(cluster, name) == {0: [b"same producer"] * is_new + [b"next producer"]}


def test_a_transaction_timeout_above_the_brokers_limit_says_which_settings(
    kafka: KafkaCluster,
) -> None:
    """P-I.6: the brokers' default is a quarter of an hour."""
    settings = {"transactional_id": new_id(), "transaction_timeout_ms": 3_600_000}
    with (
        KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer,
        pytest.raises(KafkaError) as raised,
    ):
        producer.init_transactions(WAIT_S)
    assert raised.value.fatal
    for said in (
        "INVALID_TRANSACTION_TIMEOUT",
        "transaction_timeout_ms",
        "transaction.max.timeout.ms",
    ):
        assert said in str(raised.value)


@pytest.mark.slow
def test_a_cluster_that_changes_the_protocol_is_followed(
    topic: TopicFactory, old_kafka: KafkaCluster
) -> None:
    """P-I.7.2, P-I.7.3, P-I.7.4: up and down between transactions."""
    name = topic(old_kafka)
    expected: list[bytes | None] = []
    level = 1
    try:
        with transactional(old_kafka, new_id(), connections_max_idle_ms=100) as producer:
            for verb in ("", "upgrade", "downgrade"):
                if verb:
                    level = 3 - level
                    old_kafka.set_feature(LEVEL, level, verb)
                for number in range(3):
                    expected.append(b"%d-%d" % (level, number))
                    with producer.transaction():
                        producer.send(name, expected[-1])
    finally:
        if level != 1:
            old_kafka.set_feature(LEVEL, 1)
    assert values(old_kafka, name) == {0: expected}


# Two-phase commit (KIP-939).

KEEPS_PREPARED = 6
UNSUPPORTED_VERSION = 35


def asked(cluster: KafkaCluster, api_key: int, version: int, **message: Any) -> Any:
    """One request on a connection of its own, and its answer."""
    host, _, port = cluster.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        connection.sendall(encode_request(api_key, version, 1, "test", message))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            return decode_response(api_key, version, stream.read(size))[1]


def highest_of_init_producer_id(cluster: KafkaCluster) -> int:
    answer = asked(
        cluster, API_VERSIONS, 3, client_software_name="test", client_software_version="1"
    )
    (found,) = [each.max_version for each in answer.api_keys if each.api_key == INIT_PRODUCER_ID]
    return int(found)


def test_two_phase_commit_is_not_to_be_had(kafka: KafkaCluster) -> None:
    """P-B.9: refused by name; should Kafka come to have it, this says so."""
    assert highest_of_init_producer_id(kafka) < KEEPS_PREPARED
    with pytest.raises(ConfigError, match="KIP-939"):
        transactional(kafka, new_id(), transaction_two_phase_commit_enable=True)


@pytest.mark.long
def test_kafka_keeps_nothing_that_was_prepared() -> None:
    """P-B.9: with all that is unstable allowed, version 6 is there, and keepPreparedTxn is not."""
    settings = {
        "unstable.api.versions.enable": "true",
        "unstable.feature.versions.enable": "true",
        "transaction.two.phase.commit.enable": "true",
    }
    with KafkaCluster(1, settings) as cluster:
        assert highest_of_init_producer_id(cluster) == KEEPS_PREPARED
        code = None
        deadline_s = time.monotonic() + WAIT_S
        while code != UNSUPPORTED_VERSION and time.monotonic() < deadline_s:
            asked(cluster, FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["two"])
            code = asked(
                cluster,
                INIT_PRODUCER_ID,
                KEEPS_PREPARED,
                transactional_id="two",
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
                enable2_pc=True,
                keep_prepared_txn=True,
            ).error_code
            time.sleep(0.1)
        assert code == UNSUPPORTED_VERSION
