"""Other people's clients against the embedded broker with TLS, with SASL/PLAIN, and with both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaConnectionError  # type: ignore[import-untyped]

import kafka_jars
from fastprod.broker import Broker
from support.broker import certificates
from support.broker.certificates import Certificate

TIMEOUT_S = 30.0
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD, WRONG = "alice", "wonderland", "looking-glass"
# Some are larger than a record of TLS.
VALUES = [b"%d " % number + b"x" * (number % 20 * 2_000) for number in range(400)]
SESSION_MS = 1_500

Secured = tuple[Broker, str]
Values = list[bytes | None]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("certificate"))


def start(protocol: str, certificate: Certificate, **config: Any) -> Broker:
    if protocol.endswith("SSL"):
        config |= {"ssl_certfile": certificate.certfile, "ssl_keyfile": certificate.keyfile}
    if protocol.startswith("SASL"):
        config |= {"sasl_users": {USER: PASSWORD}}
    return Broker(topics={"t": 1}, **config)


@pytest.fixture(params=PROTOCOLS)
def secured(
    request: pytest.FixtureRequest, certificate: Certificate
) -> Iterator[tuple[Broker, str]]:
    with start(request.param, certificate) as broker:
        yield broker, request.param


def for_confluent(broker: Broker, protocol: str, certificate: Certificate) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": protocol,
        "ssl.ca.location": str(certificate.certfile),
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }


def with_confluent(broker: Broker, protocol: str, certificate: Certificate) -> Values:
    settings = for_confluent(broker, protocol, certificate)
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g"})
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        return [each.value() for each in consumer.consume(len(VALUES), TIMEOUT_S)]
    finally:
        consumer.close()


def for_kafka_python(broker: Broker, protocol: str, certificate: Certificate) -> dict[str, Any]:
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": protocol,
        "ssl_cafile": str(certificate.certfile),
    }
    if protocol.startswith("SASL"):
        settings |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
    return settings


def with_kafka_python(broker: Broker, protocol: str, certificate: Certificate) -> Values:
    settings = for_kafka_python(broker, protocol, certificate)
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send("t", value)
    producer.close(TIMEOUT_S)
    consumer = kafka.KafkaConsumer(
        auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000), **settings
    )
    try:
        consumer.assign([kafka.TopicPartition("t", 0)])
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()


def for_aiokafka(broker: Broker, protocol: str, certificate: Certificate) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": protocol,
        "ssl_context": certificate.client_context(),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }


def with_aiokafka(broker: Broker, protocol: str, certificate: Certificate) -> Values:
    async def both() -> Values:
        settings = for_aiokafka(broker, protocol, certificate)
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send("t", value, partition=0)
            await producer.flush()
        async with AIOKafkaConsumer(auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([AioPartition("t", 0)])
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(both(), TIMEOUT_S))


CLIENTS: dict[str, Callable[[Broker, str, Certificate], Values]] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_write_and_read(client: str, secured: Secured, certificate: Certificate) -> None:
    """B-A4.7, B-A7.5."""
    assert CLIENTS[client](*secured, certificate) == VALUES
    assert [each.value for each in secured[0].records("t")] == VALUES


def test_the_java_producer_writes(
    secured: Secured, certificate: Certificate, tmp_path: Path
) -> None:
    """B-A4.7, B-A7.5."""
    broker, protocol = secured
    kafka_jars.resolve()
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = tmp_path / "producer.properties"
    settings.write_text(
        f"bootstrap.servers={broker.bootstrap_servers}\nsecurity.protocol={protocol}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificate.certfile}\n"
        f"sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";\n'
    )
    done = kafka_jars.run_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "t", "--num-records", "2000", "--throughput", "-1"),
        *("--record-size", "1000", "--command-config", str(settings)),
        timeout_s=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert broker.end_offset("t", 0) == 2_000


def test_a_wrong_password_is_told(certificate: Certificate) -> None:
    """B-A7.5: the client hears why, and nothing is written."""
    errors: list[str] = []
    with start("SASL_PLAINTEXT", certificate) as broker:
        settings = for_confluent(broker, "SASL_PLAINTEXT", certificate)
        producer = confluent_kafka.Producer(
            {**settings, "sasl.password": WRONG, "error_cb": lambda each: errors.append(each.str())}
        )
        producer.produce("t", b"never")
        deadline = time.monotonic() + TIMEOUT_S
        while not errors and time.monotonic() < deadline:
            producer.poll(0.1)
        assert "Invalid username or password" in errors[0]
        producer.purge()

        async def aio() -> None:
            settings = for_aiokafka(broker, "SASL_PLAINTEXT", certificate)
            refused = AIOKafkaProducer(**settings | {"sasl_plain_password": WRONG})
            try:
                await refused.start()
            finally:
                await refused.stop()

        with pytest.raises(KafkaConnectionError):
            asyncio.run(aio())
        assert broker.end_offset("t", 0) == 0


def test_librdkafka_authenticates_again_on_the_same_connection(certificate: Certificate) -> None:
    """KIP-368: more authentications than connections, and nothing is lost."""
    with start("SASL_SSL", certificate, connections_max_reauth_ms=SESSION_MS) as broker:
        producer = confluent_kafka.Producer(for_confluent(broker, "SASL_SSL", certificate))
        end = time.monotonic() + 3 * SESSION_MS / 1000
        sent = 0
        while time.monotonic() < end:
            producer.produce("t", b"x")
            sent += 1
            assert producer.flush(TIMEOUT_S) == 0
            time.sleep(0.01)
        server = broker._servers[0].server
        assert server is not None
        connected = sum(each.created_count for each in server.processors)
        assert broker._servers[0].metrics.snapshot()["36"].request_count > connected
        assert broker.end_offset("t", 0) == sent
