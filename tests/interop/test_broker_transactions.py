"""Other people's transactional producers on the embedded broker (B-E4, B-C7)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka
import kafka.errors
import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import ProducerFenced  # type: ignore[import-untyped]
from confluent_kafka import KafkaException, Producer

import kafka_jars
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.threads.clock import FakeClock
from fastprod.errors import KafkaError
from support.clients.client_table import ClientRow
from support.records.readers import (
    read_with_confluent,
    stream_with_aiokafka,
    stream_with_kafka_python,
)

WAIT_S = 30.0
TIMEOUT_MS = 60_000
LOOK_MS = 1_000
PARTITIONS = 3
TURNS = 5
PER_TURN = 40
TRANSACTIONS_COMMAND = "org.apache.kafka.tools.TransactionsCommand"

Turn = Callable[[list[bytes], bool], None]
"""Sends values, and commits them or not."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": PARTITIONS, "source": 1, "target": 1}) as started:
        yield started


def confluent(servers: str, **settings: object) -> Producer:
    made = Producer(
        {"bootstrap.servers": servers, "transactional.id": "x", "log_level": 0, **settings}
    )
    made.init_transactions(WAIT_S)
    return made


def turns_of_confluent(servers: str, turns: list[tuple[list[bytes], bool]]) -> None:
    producer = confluent(servers)
    for values, is_commit in turns:
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce("t", value, partition=number % PARTITIONS)
        if is_commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)


def turns_of_kafka_python(servers: str, turns: list[tuple[list[bytes], bool]]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","), transactional_id="x")
    try:
        producer.init_transactions()
        for values, is_commit in turns:
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.send("t", value, partition=number % PARTITIONS)
            producer.flush(WAIT_S)
            (producer.commit_transaction if is_commit else producer.abort_transaction)()
    finally:
        producer.close(WAIT_S)


def turns_of_aiokafka(servers: str, turns: list[tuple[list[bytes], bool]]) -> None:
    async def send_all() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="x")
        await producer.start()
        try:
            for values, is_commit in turns:
                await producer.begin_transaction()
                for number, value in enumerate(values):
                    await producer.send("t", value, partition=number % PARTITIONS)
                await producer.flush()
                if is_commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(send_all())


def turns_of_fastprod(servers: str, turns: list[tuple[list[bytes], bool]]) -> None:
    with KafkaProducer(bootstrap_servers=servers, transactional_id="x") as producer:
        producer.init_transactions(WAIT_S)
        for values, is_commit in turns:
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.send("t", value, partition=number % PARTITIONS)
            producer.flush(WAIT_S)
            (producer.commit_transaction if is_commit else producer.abort_transaction)(WAIT_S)


CLIENTS = {
    "fastprod": turns_of_fastprod,
    "confluent-kafka": turns_of_confluent,
    "kafka-python": turns_of_kafka_python,
    "aiokafka": turns_of_aiokafka,
}


def told(servers: str, topic: str = "t", committed: bool = True) -> dict[int, list[bytes | None]]:
    """Values of each partition, as confluent-kafka reads them."""
    found = read_with_confluent(servers, topic, committed=committed)
    return {index: [each.value for each in records] for index, records in found.items()}


def check_turns(broker: Broker, client: str) -> None:
    """Two of five transactions are aborted."""
    turns = [
        ([b"%d-%d" % (turn, n) for n in range(PER_TURN)], turn % 2 == 0) for turn in range(TURNS)
    ]
    CLIENTS[client](broker.bootstrap_servers, turns)
    everything: dict[int, list[bytes | None]] = {each: [] for each in range(PARTITIONS)}
    committed: dict[int, list[bytes | None]] = {each: [] for each in range(PARTITIONS)}
    for values, is_commit in turns:
        for number, value in enumerate(values):
            everything[number % PARTITIONS].append(value)
            if is_commit:
                committed[number % PARTITIONS].append(value)
    servers = broker.bootstrap_servers
    assert told(servers, committed=False) == everything
    assert told(servers) == committed
    assert [each.value for each in broker.records("t", 0)] == everything[0]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    client: str, broker: Broker, client_row: ClientRow
) -> None:
    """B-E4, B-C7.5"""
    check_turns(broker, client)
    if client != "fastprod":
        client_row(client, "transactions committed and aborted, of several partitions each")


def test_the_producer_speaks_the_older_protocol_too() -> None:
    """B-E4: before KIP-890, by what the broker lists."""
    with Broker(topics={"t": PARTITIONS}, max_versions="3.0") as broker:
        check_turns(broker, "fastprod")
        asked = {each.api for each in broker.requests()}
        assert "AddPartitionsToTxn" in asked
    with Broker(topics={"t": PARTITIONS}) as broker:
        check_turns(broker, "fastprod")
        asked = {each.api for each in broker.requests()}
        assert "AddPartitionsToTxn" not in asked


def test_a_transaction_spans_three_nodes_while_its_coordinator_goes() -> None:
    """B-E1, B-E4: the next one goes on."""
    with Broker(brokers=3, topics={"t": PARTITIONS}) as broker:
        with KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="x"
        ) as producer:
            producer.init_transactions(WAIT_S)
            manager = broker._running().transaction_coordinator.manager
            for turn in range(3):
                producer.begin_transaction()
                for number in range(PARTITIONS):
                    producer.send("t", b"%d" % turn, partition=number)
                if turn == 1:
                    broker.move_leader(
                        "__transaction_state",
                        manager.item("x", None).partition.index,  # type: ignore[union-attr]
                        (manager.leader_of("x") + 1) % 3,
                    )
                producer.commit_transaction(WAIT_S)
        expected: list[bytes | None] = [b"0", b"1", b"2"]
        assert told(broker.bootstrap_servers) == dict.fromkeys(range(PARTITIONS), expected)


@pytest.mark.parametrize(
    ("client", "reader"),
    [("kafka-python", stream_with_kafka_python), ("aiokafka", stream_with_aiokafka)],
)
def test_other_readers_skip_what_was_aborted(
    client: str, reader: object, broker: Broker, client_row: ClientRow
) -> None:
    """P-E.5, B-C7.5"""
    servers = broker.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, transactional_id="x") as producer:
        producer.init_transactions(WAIT_S)
        for turn in range(4):
            producer.begin_transaction()
            producer.send("t", b"%d" % turn, partition=0).result(WAIT_S)
            (producer.commit_transaction if turn % 2 else producer.abort_transaction)(WAIT_S)
        # Records, not markers, are counted by one of the readers.
        producer.begin_transaction()
        producer.send("t", b"last", partition=0)
        producer.commit_transaction(WAIT_S)
    found: list[bytes | None] = []
    stream = reader(servers, "t", {0: 9}, committed=True)  # type: ignore[operator]
    for record in stream:
        found.append(record.value)
        if record.value == b"last":
            break
    stream.close()
    assert found == [b"1", b"3", b"last"]
    client_row(client, "reads the records of committed transactions alone")


def test_a_zombie_is_fenced(broker: Broker, client_row: ClientRow) -> None:
    """B-E4: confluent-kafka's by ours, and ours by confluent-kafka's, and aiokafka's."""
    servers = broker.bootstrap_servers
    zombie = confluent(servers)
    zombie.begin_transaction()
    zombie.produce("t", b"zombie", partition=0)
    assert zombie.flush(WAIT_S) == 0
    with KafkaProducer(bootstrap_servers=servers, transactional_id="x") as producer:
        producer.init_transactions(WAIT_S)
        with pytest.raises(KafkaException) as caught:
            zombie.commit_transaction(WAIT_S)
        assert caught.value.args[0].fatal()
        producer.begin_transaction()
        producer.send("t", b"ours", partition=0).result(WAIT_S)
        last = confluent(servers)
        with pytest.raises(KafkaError) as fenced:
            producer.commit_transaction(WAIT_S)
        assert fenced.value.fatal or fenced.value.abortable

    async def fence() -> None:
        first, second = (
            AIOKafkaProducer(bootstrap_servers=servers, transactional_id="aio") for _ in range(2)
        )
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait("t", b"aio zombie", partition=0)
        await second.start()
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        await second.stop()
        await first.stop()

    asyncio.run(fence())
    last.begin_transaction()
    last.produce("t", b"last", partition=0)
    last.commit_transaction(WAIT_S)
    assert told(servers)[0] == [b"last"]
    for client in ("confluent-kafka", "aiokafka"):
        client_row(client, "its zombie is fenced, and nothing that it sent is read as committed")


def test_an_abandoned_transaction_is_aborted() -> None:
    """B-E4: after its time-out, so that readers go on; the producer learns it."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    with Broker(topics={"t": PARTITIONS}, clock=clock) as broker:
        servers = broker.bootstrap_servers
        producer = confluent(servers, **{"transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0})
        producer.begin_transaction()
        producer.produce("t", b"abandoned", partition=0)
        assert producer.flush(WAIT_S) == 0
        with KafkaProducer(bootstrap_servers=servers) as plain:
            plain.send("t", b"plain", partition=0).result(WAIT_S)
        assert broker._partition("t", 0).log.last_stable_offset == 0
        clock.advance(TIMEOUT_MS)
        deadline = time.monotonic() + WAIT_S
        while broker._partition("t", 0).log.last_stable_offset == 0:
            assert time.monotonic() < deadline
            clock.advance(LOOK_MS)  # it looks from time to time
            time.sleep(0.02)
        assert told(servers)[0] == [b"plain"]
        with pytest.raises(KafkaException):
            producer.commit_transaction(WAIT_S)


def run(*args: str, class_name: str = TRANSACTIONS_COMMAND) -> str:
    done = kafka_jars.run_class(class_name, *args, timeout_s=60.0)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)  # several JVMs, one after the other
def test_javas_command_lists_describes_and_aborts(broker: Broker, client_row: ClientRow) -> None:
    """KIP-664: kafka-transactions.sh."""
    kafka_jars.resolve()
    # Longer than the command's four runs.
    producer = confluent(broker.bootstrap_servers, **{"transaction.timeout.ms": 600_000})
    producer.begin_transaction()
    producer.produce("t", b"hangs", partition=1)
    assert producer.flush(WAIT_S) == 0
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    assert re.search(r"^x\s+0\s+0\s+Ongoing", run(*servers, "list"), re.MULTILINE)
    described = run(*servers, "describe", "--transactional-id", "x")
    assert re.search(r"^0\s+x\s+0\s+0\s+Ongoing\s+600000\s.*\st-1\s", described, re.MULTILINE)
    place = ("--topic", "t", "--partition", "1")
    producers = run(*servers, "describe-producers", *place)
    assert re.search(r"^0\s+0\s+-1\s+0\s+\d+\s+0", producers, re.MULTILINE)
    run(*servers, "abort", *place, "--start-offset", "0")
    assert broker._partition("t", 1).log.last_stable_offset == 2
    assert told(broker.bootstrap_servers)[1] == []
    client_row("kafka-transactions.sh", "list, describe, describe-producers and abort")


def test_javas_producer_speaks_the_protocol_of_kafka_4(
    broker: Broker, client_row: ClientRow
) -> None:
    """B-E4, KIP-890: by its perf tool, a transaction each 10 ms."""
    kafka_jars.resolve()
    said = run(
        *("--topic", "t", "--num-records", "3000", "--record-size", "50", "--throughput", "10000"),
        *("--bootstrap-server", broker.bootstrap_servers, "--transactional-id", "java"),
        *("--transaction-duration-ms", "10"),
        class_name="org.apache.kafka.tools.ProducerPerformance",
    )
    assert "3000 records sent" in said
    assert sum(map(len, told(broker.bootstrap_servers).values())) == 3000
    assert {each.version for each in broker.requests("Produce")} == {13}
    ends = broker.requests("EndTxn")
    assert len(ends) > 2
    assert {each.version for each in ends} == {5}
    assert broker.requests("AddPartitionsToTxn") == []
    client_row(
        "kafka-producer-perf-test.sh",
        "3,000 records in transactions as of Kafka 4 (KIP-890)",
    )


def test_kafkas_tool_reads_what_is_kept_of_transactions(
    tmp_path: Path, client_row: ClientRow
) -> None:
    """B-E4, B-C3.4, B-C6.7, B-C7.2: kafka-dump-log, of the state, a log, its index and snapshot."""
    kafka_jars.resolve()
    with Broker(data_dir=tmp_path, topics={"t": 1}) as broker:
        turns = [([b"committed"], True), ([b"aborted"], False)]
        turns_of_fastprod(broker.bootstrap_servers, turns)
        producer = confluent(broker.bootstrap_servers, **{"transactional.id": "open"})
        producer.begin_transaction()
        producer.produce("t", b"open", partition=0)
        assert producer.flush(WAIT_S) == 0
        del producer
    tool = "org.apache.kafka.tools.DumpLogSegments"
    states = [each for each in tmp_path.glob("__transaction_state-*/*.log") if each.stat().st_size]
    files = ("--files", ",".join(map(str, states)))
    dumped = run("--transaction-log-decoder", *files, class_name=tool)
    found = set(re.findall(r'"transactionStatus":(\d)', dumped))
    # Empty, ongoing, decided and complete; the last one has been left open.
    assert found == {"0", "1", "2", "3", "4", "5"}, dumped
    logs = [each for each in (tmp_path / "t-0").iterdir() if each.stem.isdigit()]
    assert {each.suffix for each in logs} >= {".log", ".txnindex", ".snapshot"}
    files = ("--files", ",".join(map(str, logs)))
    dumped = run("--deep-iteration", *files, class_name=tool)
    assert "isvalid: false" not in dumped
    assert re.search(r"endTxnMarker: COMMIT coordinatorEpoch: 0", dumped)
    assert re.search(r"endTxnMarker: ABORT coordinatorEpoch: 0", dumped)
    assert re.search(r"producerId: 0 firstOffset: 2 lastOffset: 3 lastStableOffset: 4", dumped)
    assert re.search(r"producerId: 1 producerEpoch: 0 .*currentTxnFirstOffset: \S*4", dumped)
    client_row(
        "kafka-dump-log.sh", "reads the state of transactions, segments, their index and snapshot"
    )
