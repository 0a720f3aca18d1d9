"""Other people's clients, and ours, against the embedded broker (B-B2).

Every producer in every mode with every codec, each topic read back by three consumers, record for
record. What was tried stands in build/broker-clients.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic as ConfluentNewTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaNewTopic

import kafka_jars
from fastprod import KafkaProducer
from fastprod.broker import Broker
from support.clients.client_table import ClientRow
from support.records.readers import READERS, ReadRecord, stream_with_aiokafka

TIMEOUT_S = 30.0
PARTITIONS = 3
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MODES = ("plain", "idempotent")
# Each run of Java takes seconds: `make test` has these of the codecs.
JAVA_CODECS = ("none", "zstd")
NOW_MS = time.time_ns() // 1_000_000 - 60_000
JAVA = "Java (ProducerPerformance)"
SENT = "sends with and without idempotence, with each codec"
READ = "reads what each of the producers sent with each codec, as it was sent"
TABLE = Path(__file__).parents[2] / "build" / "broker-clients.md"


class Sent(NamedTuple):
    """One record as it was given to a producer."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


RECORDS = [
    Sent(
        number % PARTITIONS,
        NOW_MS + number,
        None if number % 5 == 0 else b"key %d" % (number % 7),
        b"value %d " % number + b"x" * (number % 11 * 30),
        (("number", b"%d" % number), ("empty", b"")) if number % 4 else (),
    )
    for number in range(300)
]

Produce = Callable[[str, str, bool, str], None]


def with_confluent(servers: str, topic: str, idempotent: bool, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": idempotent,
            "compression.type": codec,
            "log_level": 0,
        }
    )
    for each in RECORDS:
        producer.produce(
            topic,
            each.value,
            each.key,
            partition=each.partition,
            timestamp=each.timestamp_ms,
            headers=list(each.headers),
        )
    assert producer.flush(TIMEOUT_S) == 0


def with_kafka_python(servers: str, topic: str, idempotent: bool, codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","),
        enable_idempotence=idempotent,
        compression_type=None if codec == "none" else codec,
    )
    futures = [
        producer.send(
            topic,
            value=each.value,
            key=each.key,
            partition=each.partition,
            timestamp_ms=each.timestamp_ms,
            headers=list(each.headers),
        )
        for each in RECORDS
    ]
    for future in futures:
        future.get(TIMEOUT_S)
    producer.close()


def with_aiokafka(servers: str, topic: str, idempotent: bool, codec: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    each.value,
                    each.key,
                    partition=each.partition,
                    timestamp_ms=each.timestamp_ms,
                    headers=list(each.headers),
                )
                for each in RECORDS
            ]
            await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_S)
        finally:
            await producer.stop()

    asyncio.run(run())


def with_fastprod(servers: str, topic: str, idempotent: bool, codec: str) -> None:
    with KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=idempotent, compression_type=codec
    ) as producer:
        futures = [
            producer.send(
                topic,
                each.value,
                each.key,
                partition=each.partition,
                timestamp_ms=each.timestamp_ms,
                headers=list(each.headers),
            )
            for each in RECORDS
        ]
        for future in futures:
            future.result(TIMEOUT_S)


PRODUCERS: dict[str, Produce] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "fastprod": with_fastprod,
}


CONSUMERS: dict[str, Callable[[str, str, Mapping[int, int]], list[ReadRecord]]] = {
    "confluent-kafka": lambda *args: list(READERS["confluent-kafka"](*args)),
    "kafka-python": lambda *args: list(READERS["kafka-python"](*args)),
    "aiokafka": lambda *args: list(stream_with_aiokafka(*args)),
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One node with topic "t"."""
    with Broker(topics={"t": PARTITIONS}) as started:
        yield started


class Tried(NamedTuple):
    """One row of the table."""

    records_by_consumer: dict[str, int]
    stored_bytes: int


@pytest.fixture(scope="module")
def tried() -> Iterator[dict[tuple[str, str, str], Tried]]:
    """What was tried, by producer, mode and codec; written to the table at the end."""
    rows: dict[tuple[str, str, str], Tried] = {}
    yield rows
    consumers = list(CONSUMERS)
    lines = [
        "# Clients against the embedded broker",
        "",
        f"{len(RECORDS)} records each, over {PARTITIONS} partitions, with keys, headers and time",
        "stamps of their own; each cell: records that a consumer found equal to those sent.",
        "",
        f"| producer | mode | codec | stored bytes | {' | '.join(consumers)} |",
        f"|---|---|---|---|{'---|' * len(consumers)}",
    ]
    for (producer, mode, codec), row in sorted(rows.items()):
        cells = " | ".join(str(row.records_by_consumer[each]) for each in consumers)
        lines.append(f"| {producer} | {mode} | {codec} | {row.stored_bytes} | {cells} |")
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n", "ascii")


def by_partition(records: list[ReadRecord]) -> dict[int, list[ReadRecord]]:
    found: dict[int, list[ReadRecord]] = {index: [] for index in range(PARTITIONS)}
    for each in records:
        found[each.partition].append(each)
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", PRODUCERS)
def test_every_consumer_finds_each_record_as_it_was_sent(
    client: str,
    mode: str,
    codec: str,
    broker: Broker,
    tried: dict[tuple[str, str, str], Tried],
    client_row: ClientRow,
) -> None:
    """B-B2.1, B-B2.2, B-B2.3: content, key, headers, timestamp; offsets without gaps."""
    PRODUCERS[client](broker.bootstrap_servers, "t", mode == "idempotent", codec)
    logs = [broker._partition("t", index).log for index in range(PARTITIONS)]
    batches = [batch for log in logs for batch in log.batches()]
    # A client may leave a small batch as it is if compressing makes it no smaller.
    codecs = {batch.codec for batch in batches}
    assert CODECS[codec] in codecs <= {CODECS[codec], 0}
    assert all((batch.producer_id >= 0) == (mode == "idempotent") for batch in batches)
    ends = {index: log.log_end_offset for index, log in enumerate(logs)}
    counts = {}
    for name, read in CONSUMERS.items():
        found = by_partition(read(broker.bootstrap_servers, "t", ends))
        for index, records in found.items():
            sent = [each for each in RECORDS if each.partition == index]
            assert records == [
                ReadRecord(index, offset, each.timestamp_ms, each.key, each.value, each.headers)
                for offset, each in enumerate(sent)
            ]
        counts[name] = sum(map(len, found.values()))
    if client != "fastprod":
        client_row(client, SENT)
    for name in CONSUMERS:
        client_row(name, READ)
    tried[client, mode, codec] = Tried(counts, sum(log.size_bytes for log in logs))


def with_java(servers: str, topic: str, idempotent: bool, codec: str, folder: Path) -> None:
    """Kafka's own producer, by its perf tool: it chooses among the values and the partitions."""
    values = folder / "values"
    values.write_bytes(b"".join(each.value + b"\n" for each in RECORDS))
    settings = folder / "producer.properties"
    settings.write_text(
        f"bootstrap.servers={servers}\nacks=all\ncompression.type={codec}\n"
        f"enable.idempotence={str(idempotent).lower()}\n"
    )
    done = kafka_jars.run_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(len(RECORDS)), "--throughput", "-1"),
        *("--payload-file", str(values), "--command-config", str(settings)),
        timeout_s=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RECORDS)} records sent" in done.stdout


@pytest.mark.parametrize(
    "codec",
    [pytest.param(each, marks=[] if each in JAVA_CODECS else pytest.mark.slow) for each in CODECS],
)
@pytest.mark.parametrize("mode", MODES)
def test_every_consumer_finds_what_the_java_producer_sent(
    mode: str,
    codec: str,
    broker: Broker,
    tried: dict[tuple[str, str, str], Tried],
    tmp_path: Path,
    client_row: ClientRow,
) -> None:
    """B-B2.4"""
    kafka_jars.resolve()
    with_java(broker.bootstrap_servers, "t", mode == "idempotent", codec, tmp_path)
    logs = [broker._partition("t", index).log for index in range(PARTITIONS)]
    batches = [batch for log in logs for batch in log.batches()]
    assert {batch.codec for batch in batches} == {CODECS[codec]}
    assert all((batch.producer_id >= 0) == (mode == "idempotent") for batch in batches)
    ends = {index: log.log_end_offset for index, log in enumerate(logs)}
    stored = [
        ReadRecord(each.partition, each.offset, each.timestamp, None, each.value, ())
        for each in broker.records("t")
    ]
    assert len(stored) == len(RECORDS)
    assert {each.value for each in stored} <= {each.value for each in RECORDS}
    for read in CONSUMERS.values():
        assert by_partition(read(broker.bootstrap_servers, "t", ends)) == by_partition(stored)
    client_row("kafka-producer-perf-test.sh", SENT)
    counts = dict.fromkeys(CONSUMERS, len(stored))
    tried[JAVA, mode, codec] = Tried(counts, sum(log.size_bytes for log in logs))


def test_the_table_of_clients_is_complete(tried: dict[tuple[str, str, str], Tried]) -> None:
    codecs = {**dict.fromkeys(PRODUCERS, tuple(CODECS)), JAVA: JAVA_CODECS}
    wanted = {
        (client, mode, codec) for client in codecs for mode in MODES for codec in codecs[client]
    }
    assert wanted <= tried.keys()
    for row in tried.values():
        assert row.records_by_consumer == dict.fromkeys(CONSUMERS, len(RECORDS))


def _fill(broker: Broker) -> list[int]:
    """Ten records in partition 1, 100 ms apart; returns their timestamps."""
    times = [NOW_MS + 100 * number for number in range(10)]
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, compression_type="zstd", linger_ms=50
    ) as producer:
        for at in times:
            producer.send("t", b"%d" % at, partition=1, timestamp_ms=at)
    assert broker.end_offset("t", 1) == len(times)
    return times


def test_confluent_finds_offsets_by_time_and_both_ends(broker: Broker) -> None:
    """B-D3: inside a compressed batch too."""
    times = _fill(broker)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "any", "log_level": 0}
    )
    try:
        place = confluent_kafka.TopicPartition
        asked = [place("t", 1, times[4] - 1), place("t", 0, times[0])]
        found = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        assert [each.error for each in found] == [None, None]
        # -1001 is its sign for "the end": there is no such record.
        assert [each.offset for each in found] == [4, confluent_kafka.OFFSET_END]
        late = consumer.offsets_for_times([place("t", 1, times[-1] + 1)], timeout=TIMEOUT_S)
        assert late[0].offset == confluent_kafka.OFFSET_END
        assert consumer.get_watermark_offsets(place("t", 1), TIMEOUT_S) == (0, 10)
        assert consumer.get_watermark_offsets(place("t", 0), TIMEOUT_S) == (0, 0)
    finally:
        consumer.close()


def test_kafka_python_finds_offsets_by_time_and_both_ends(broker: Broker) -> None:
    """B-D3"""
    times = _fill(broker)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers.split(","))
    try:
        one, empty = kafka.TopicPartition("t", 1), kafka.TopicPartition("t", 0)
        found = consumer.offsets_for_times({one: times[7], empty: times[0]})
        assert (found[one].offset, found[one].timestamp) == (7, times[7])
        assert found[empty] is None
        assert consumer.beginning_offsets([one, empty]) == {one: 0, empty: 0}
        assert consumer.end_offsets([one, empty]) == {one: 10, empty: 0}
    finally:
        consumer.close()


def test_aiokafka_finds_offsets_by_time_and_both_ends(broker: Broker) -> None:
    """B-D3"""
    times = _fill(broker)

    async def run() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
        await consumer.start()
        try:
            one, empty = AioPartition("t", 1), AioPartition("t", 0)
            found = await consumer.offsets_for_times({one: times[9], empty: times[0]})
            assert (found[one].offset, found[one].timestamp) == (9, times[9])
            assert found[empty] is None
            assert await consumer.beginning_offsets([one, empty]) == {one: 0, empty: 0}
            assert await consumer.end_offsets([one, empty]) == {one: 10, empty: 0}
        finally:
            await consumer.stop()

    asyncio.run(run())


def test_confluents_admin_makes_describes_and_deletes_topics(broker: Broker) -> None:
    """B-D4.5, B-D4.8: with the controller as Metadata tells it (B-B1.2)."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    new = ConfluentNewTopic("made", 5, 1, config={"max.message.bytes": "2000"})
    admin.create_topics([new])["made"].result(TIMEOUT_S)
    assert len(admin.list_topics(timeout=TIMEOUT_S).topics["made"].partitions) == 5
    resource = ConfigResource("topic", "made")
    settings = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert settings["max.message.bytes"].value == "2000"
    assert settings["cleanup.policy"].value == "delete"
    with pytest.raises(confluent_kafka.KafkaException) as again:
        admin.create_topics([new])["made"].result(TIMEOUT_S)
    assert again.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics(["made"])["made"].result(TIMEOUT_S)
    assert broker.topic_names() == ["t"]


def test_kafka_pythons_admin_makes_describes_and_deletes_topics(broker: Broker) -> None:
    """B-D4.5, B-D4.8"""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers.split(","))
    try:
        admin.create_topics([KafkaNewTopic("made", 4, 1)])
        assert sorted(admin.list_topics()) == ["made", "t"]
        assert admin.describe_cluster()["cluster_id"] == broker.cluster_id
        with pytest.raises(kafka.errors.TopicAlreadyExistsError):
            admin.create_topics([KafkaNewTopic("made", 4, 1)])
        admin.delete_topics(["made"])
        assert admin.list_topics() == ["t"]
    finally:
        admin.close()


def test_aiokafkas_admin_makes_and_deletes_topics(broker: Broker) -> None:
    """B-D4.5: CreateTopics 3, from before flexible versions (B-B2.3)."""

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic("made", 2, 1)])
            assert sorted(await admin.list_topics()) == ["made", "t"]
            await admin.delete_topics(["made"])
            assert await admin.list_topics() == ["t"]
        finally:
            await admin.close()

    asyncio.run(run())


def test_a_waiting_consumer_gets_a_record_when_it_comes(broker: Broker) -> None:
    """B-D2.3: the long poll ends with the append; its own time would be over in a minute only."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "any",
            "fetch.wait.max.ms": 60_000,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 2, 0)])
        deadline = time.monotonic() + TIMEOUT_S
        while not broker._running().purgatory.parked_count:
            assert time.monotonic() < deadline
            consumer.poll(0.01)
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"at last", partition=2).result(TIMEOUT_S)
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"at last"
    finally:
        consumer.close()
