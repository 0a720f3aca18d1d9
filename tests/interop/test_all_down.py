"""All brokers are down for a while, and come back on other ports.

Producers go on sending meanwhile. Their bootstrap_servers name the old addresses and the new ones;
all that they have learned of the cluster is wrong afterwards (KIP-899, KIP-1102).
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod.broker import Broker
from kafka_cluster import KafkaCluster
from kafka_node import free_ports
from support.chaos.proxy import free_neighbours
from support.processes.scale import SCALE_PERCENT, scaled, time_limit
from support.records.readers import read_with_confluent

DOWN_S = scaled(60, at_least=3)
# A measure only where the machine is ours alone, as in `make accept`.
RESUMES_S = 2.0 if SCALE_PERCENT >= 100 else 20.0
UP_S = 1.0
PAUSE_S = 0.005
TOPIC = "down"
PARTITIONS = 3
NODES = 3
WAIT_S = 120.0


class Moving(ABC):
    """Three nodes that are taken down and come back elsewhere."""

    bootstrap_servers: str

    @abstractmethod
    def down(self) -> None: ...

    @abstractmethod
    def up_elsewhere(self) -> str:
        """Where they are now; they serve."""


class OurNodes(Moving):
    """A `Broker`, and another one with its folder."""

    def __init__(self, folder: Path, opened: contextlib.ExitStack) -> None:
        self._opened = opened
        self._folder = folder
        self._first = [free_neighbours(NODES) for _ in range(2)]
        ports = [first + number for first in self._first for number in range(NODES)]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._broker = self._open(self._first[0])
        self._broker.create_topic(TOPIC, PARTITIONS)

    def _open(self, port: int) -> Broker:
        broker = Broker(
            brokers=NODES,
            port=port,
            data_dir=self._folder,
            default_replication_factor=NODES,
            min_insync_replicas=2,
            transaction_state_log_num_partitions=2,
        )
        return self._opened.enter_context(broker)

    def down(self) -> None:
        for node in self._broker.nodes:
            node.kill()
        self._broker.stop()

    def up_elsewhere(self) -> str:
        return self._open(self._first[1]).bootstrap_servers


class ApacheNodes(Moving):
    """Apache Kafka, killed by SIGKILL."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        self._kafka = opened.enter_context(KafkaCluster(NODES, heap="256m"))
        self._kafka.create_topic(TOPIC, PARTITIONS)
        self._ports = free_ports(NODES)
        elsewhere = [f"127.0.0.1:{port}" for port in self._ports]
        self.bootstrap_servers = ",".join([self._kafka.bootstrap_servers, *elsewhere])

    def down(self) -> None:
        for node_id in self._kafka.node_ids:
            self._kafka.kill(node_id)

    def up_elsewhere(self) -> str:
        self._kafka.restart_all({"PLAINTEXT": self._ports})
        return self._kafka.bootstrap_servers


@pytest.fixture
def our_nodes(tmp_path: Path) -> Iterator[Moving]:
    with contextlib.ExitStack() as opened:
        yield OurNodes(tmp_path, opened)


@pytest.fixture
def apache_nodes() -> Iterator[Moving]:
    with contextlib.ExitStack() as opened:
        yield ApacheNodes(opened)


class Sender:
    """Sends a record each five milliseconds, whatever happens; `with` is its time."""

    def __init__(self, producer: KafkaProducer) -> None:
        self.sent: list[tuple[bytes, RecordFuture]] = []
        self.errors: list[BaseException] = []
        self.acknowledged_s = 0.0
        self._producer = producer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender")

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(PAUSE_S):
                number = len(self.sent)
                future = self._producer.send(
                    TOPIC,
                    b"%d" % number,
                    partition=number % PARTITIONS,
                    on_delivery=self._delivered,
                )
                self.sent.append((b"%d" % number, future))
        except BaseException as error:
            self.errors.append(error)

    def _delivered(self, _: object, error: Exception | None) -> None:
        if error is None:
            self.acknowledged_s = time.monotonic()

    def wait_for_news(self, since_s: float) -> float:
        """Until a record is acknowledged after that time; how long after."""
        while self.acknowledged_s < since_s:
            assert time.monotonic() < since_s + WAIT_S, "sending does not resume"
            assert self.errors == []
            time.sleep(0.01)
        return self.acknowledged_s - since_s


def settings(nodes: Moving) -> dict[str, Any]:
    return {
        "bootstrap_servers": nodes.bootstrap_servers,
        "delivery_timeout_ms": 240_000,
        "request_timeout_ms": 5_000,
    }


def prove(nodes: Moving) -> None:
    with (
        KafkaProducer(settings(nodes)) as producer,
        KafkaProducer(
            settings(nodes), transactional_id="down", transaction_timeout_ms=240_000
        ) as ledger,
    ):
        ledger.init_transactions(WAIT_S)
        ledger.begin_transaction()
        ledger.send(TOPIC, b"before", partition=0).result(WAIT_S)
        with Sender(producer) as sender:
            sender.wait_for_news(time.monotonic())
            time.sleep(UP_S)
            nodes.down()
            time.sleep(DOWN_S)
            ledger.send(TOPIC, b"while", partition=0)
            servers = nodes.up_elsewhere()
            took_s = sender.wait_for_news(time.monotonic())
            time.sleep(UP_S)
        ledger.commit_transaction(WAIT_S)
        assert sender.errors == []
        producer.flush(WAIT_S)
    told = {}
    for value, future in sender.sent:
        metadata = future.result(0)
        told[metadata.partition, metadata.offset] = value
    print(f"{DOWN_S} s down: sending goes on {took_s:.2f} s after; {len(told):,} records")
    seen = read_with_confluent(servers, TOPIC, committed=True)
    there = {(index, each.offset): each.value for index, rows in seen.items() for each in rows}
    transaction = [place for place, value in there.items() if value in (b"before", b"while")]
    assert len(transaction) == 2
    assert {place: value for place, value in there.items() if place not in transaction} == told
    assert len(told) == len(sender.sent)
    for index, rows in seen.items():
        numbers = [int(each.value or b"") for each in rows if (index, each.offset) in told]
        assert numbers == sorted(numbers)
    assert took_s < RESUMES_S


@time_limit(400, least_s=100)
def test_our_brokers_come_back_elsewhere_and_nothing_is_lost_or_twice(our_nodes: Moving) -> None:
    """P-D.8, P-H.5.2, P-H.5.5, and a transaction that was open goes on."""
    prove(our_nodes)


@pytest.mark.long
@pytest.mark.kafka
@time_limit(500, least_s=300)
def test_apache_kafka_comes_back_elsewhere_and_nothing_is_lost_or_twice(
    apache_nodes: Moving,
) -> None:
    prove(apache_nodes)
