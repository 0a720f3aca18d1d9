"""What real clients say, damaged in every way, to a Broker in this process: it still answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import Callable
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fastprod.broker import Broker
from fastprod.broker.network.request import Request
from fastprod.broker.server.kafka_apis import KafkaApis
from fastprod.protocol.api_keys import API_VERSIONS
from support.broker.hostile_stage import ask, framed, head
from support.broker.sockets import until
from support.oracle.damage import damaged
from support.processes.scale import scaled, time_limit

TIMEOUT_S = 20.0
HELLO = framed(head(API_VERSIONS, 0))


def with_confluent(servers: str) -> None:
    """confluent-kafka."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic("made", 2, 1)])["made"].result(TIMEOUT_S)
    admin.delete_topics(["made"])["made"].result(TIMEOUT_S)
    del admin  # it has no close
    for codec in ("none", "zstd"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": codec}
        )
        producer.produce("t", b"v" * 200, b"k", 0, headers=[("h", b"1")])
        assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    assert consumer.poll(TIMEOUT_S) is not None
    consumer.close()


def with_kafka_python(servers: str) -> None:
    """kafka-python."""
    producer = kafka.KafkaProducer(bootstrap_servers=servers, compression_type="gzip")
    producer.send("t", b"v" * 200, b"k", partition=0).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers)
    consumer.assign([kafka.TopicPartition("t", 0)])
    consumer.seek_to_beginning()
    assert consumer.poll(TIMEOUT_S * 1000)
    consumer.close()


def with_aiokafka(servers: str) -> None:
    """aiokafka."""

    async def talk() -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
            await producer.send_and_wait("t", b"v" * 200, b"k", partition=0)
        # Not seek_to_beginning: an answer to its own first question, for the latest offset, would
        # be taken for the earliest one when it comes after the seek.
        consumer = AIOKafkaConsumer("t", bootstrap_servers=servers, auto_offset_reset="earliest")
        async with consumer:
            await asyncio.wait_for(consumer.getone(), TIMEOUT_S)

    asyncio.run(talk())


def recorded(talk: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests of a client, without their sizes."""
    frames: list[bytes] = []
    handle = KafkaApis.handle

    def note(apis: KafkaApis, request: Request) -> None:
        frames.append(bytes(memoryview(request.frame)))
        handle(apis, request)

    with monkeypatch.context() as patch, Broker(topics={"t": 2}) as broker:
        patch.setattr(KafkaApis, "handle", note)
        talk(broker.bootstrap_servers)
    return frames


class _Errors(logging.Handler):
    """What the broker says that is no warning about a client."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage() + str(record.exc_info or ""))


@time_limit(1_200.0)
@pytest.mark.parametrize("talk", [with_confluent, with_kafka_python, with_aiokafka])
@pytest.mark.parametrize("threads", [0, 2])
def test_damaged_requests_of_real_clients_end_nothing_but_their_connections(
    talk: Callable[[str], None], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-D5, B-A3.15: after each there is an answer for others, and none is an error of the
    broker.
    """
    frames = recorded(talk, monkeypatch)
    assert len(frames) >= 5
    chance = random.Random(f"{talk.__name__} {threads}")
    errors = _Errors()
    logger = logging.getLogger("fastprod.broker")
    logger.addHandler(errors)
    monkeypatch.setattr(logger, "propagate", False)
    try:
        with Broker(topics={"t": 2}, num_io_threads=threads, fetch_wait_cap_ms=5) as broker:
            _send_damaged(broker, frames, chance, errors)
    finally:
        logger.removeHandler(errors)
    assert not errors.records, errors.records[:3]


def _send_damaged(
    broker: Broker, frames: list[bytes], chance: random.Random, errors: _Errors
) -> None:
    address = ("127.0.0.1", broker.nodes[0].port)
    with socket.create_connection(address, TIMEOUT_S) as good:
        for number in range(scaled(100_000)):
            bad = damaged(chance.choice(frames), frames, chance, header_bytes=14)
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(address, TIMEOUT_S) as client,
            ):
                client.sendall(framed(bad) + HELLO)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            if number % 10 == 0:
                assert ask(good, HELLO)
            assert not errors.records, (bad.hex(), errors.records[0])
        server = broker._servers[0].server
        assert server is not None
        until(lambda: server.connection_count == 1, "all bad connections gone")
    until(lambda: server.quotas.total_count == 0, "no connection counted")
