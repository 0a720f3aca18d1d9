"""Partitions come to other nodes: Kafka's own tool on our broker, and answers as Kafka's."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import kafka_jars
from conftest import TopicFactory
from fastprod.broker import Broker
from fastprod.protocol import api_keys
from fastprod.protocol.messages.replica.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fastprod.protocol.messages.replica.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafka_cluster import KafkaCluster
from support.broker.sasl_client import SaslClient
from support.broker.world import wait_for
from support.records.readers import read_with_confluent

TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TIMEOUT_S = 60.0
PARTITIONS = 2
NODES = 4

Places = dict[int, list[int]]


def run(broker: Broker, *args: str) -> str:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    done = kafka_jars.run_class(TOOL, *servers, *args, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plan(folder: Path, places: Places) -> tuple[str, str]:
    path = folder / "plan.json"
    rows = [{"topic": "t", "partition": at, "replicas": nodes} for at, nodes in places.items()]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return "--reassignment-json-file", str(path)


def places(broker: Broker) -> tuple[Places, list[int]]:
    """Replicas by partition, and the leaders, as any client is told."""
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as client:
        told = client.list_topics("t", TIMEOUT_S).topics["t"].partitions
    return {at: each.replicas for at, each in told.items()}, [
        told[at].leader for at in sorted(told)
    ]


class Load:
    """An idempotent producer of confluent-kafka that sends to all partitions until it is left."""

    def __init__(self, broker: Broker) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent: dict[int, list[bytes]] = {at: [] for at in range(PARTITIONS)}
        self.errors: list[object] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(TIMEOUT_S)
        assert self._producer.flush(TIMEOUT_S) == 0

    def _send(self) -> None:
        number = 0
        while not self._is_over.wait(0.002):
            value, at = b"%d" % number, number % PARTITIONS
            self._producer.produce("t", value, partition=at, on_delivery=self._delivered)
            self.sent[at].append(value)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(error)


@pytest.mark.long  # several JVMs, one after the other
@pytest.mark.timeout(300)
def test_kafkas_tool_moves_partitions_under_load(tmp_path: Path) -> None:
    """B-D4.12: kafka-reassign-partitions.sh --execute, --list, --verify and --cancel."""
    kafka_jars.resolve()
    data_dir = tmp_path / "data"
    with Broker(brokers=NODES, data_dir=data_dir, min_insync_replicas=2) as broker:
        broker.create_topic("t", PARTITIONS, replication_factor=2)
        assert places(broker) == ({0: [0, 1], 1: [1, 2]}, [0, 1])
        with Load(broker) as load:
            broker.faults.stop_fetching(3)
            moves = plan(tmp_path, {0: [3, 2], 1: [3, 0, 2]})
            said = run(broker, *moves, "--execute")
            assert "Successfully started partition reassignments for t-0,t-1" in said
            said = run(broker, "--list")
            assert "t-0: replicas: 3,2,0,1. adding: 2,3. removing: 0,1." in said
            assert "t-1: replicas: 3,0,2,1. adding: 0,3. removing: 1." in said
            assert "partition t-1 is still in progress" in run(broker, *moves, "--verify")
            broker.faults.resume_fetching(3)
            wait_for(lambda: places(broker) == ({0: [3, 2], 1: [3, 0, 2]}, [3, 3]))
            said = run(broker, *moves, "--verify")
            assert said.count("is completed") == 2
            broker.faults.stop_fetching(1)
            moves = plan(tmp_path, {0: [1, 0]})
            run(broker, *moves, "--execute")
            said = run(broker, *moves, "--cancel")
            assert "Successfully cancelled partition reassignment for: t-0" in said
            # As in Kafka, those that stay after all have lost their order.
            assert places(broker) == ({0: [2, 3], 1: [3, 0, 2]}, [3, 3])
            broker.faults.resume_fetching(1)
        assert load.errors == []
        found = read_with_confluent(broker.bootstrap_servers, "t")
        assert {at: [each.value for each in found[at]] for at in found} == load.sent
        assert not list(data_dir.rglob("node@1/t-*"))
        assert sorted(each.name for each in data_dir.glob("t-*")) == ["t-1"]


def altered(client: SaslClient, version: int, *asked: tuple[str, int, list[int] | None]) -> Any:
    topics = [
        ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=index, replicas=nodes)]
        )
        for name, index, nodes in asked
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=topics, allow_replication_factor_change=version == 0
    )
    return str(client.ask(api_keys.ALTER_PARTITION_REASSIGNMENTS, version, request))


def said_by(port: int, node: int, topic: str) -> Sequence[object]:
    """What a broker with the one node says to right and wrong requests."""
    asked: list[tuple[str, int, list[int] | None]] = [
        *((name, index, [node]) for name in (topic, "", "?") for index in (0, 7)),
        *((topic, 0, nodes) for nodes in ([], [node, node], [node, 99], [-1], None)),
    ]
    names = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 7])
        for name in (topic, "?")
    ]
    with SaslClient(port) as client:
        said: list[object] = [
            altered(client, version, each) for version in (0, 1) for each in asked
        ]
        said.append(altered(client, 1, (topic, 0, [node]), (topic, 1, [node])))
        for topics in (None, [], names):
            request = ListPartitionReassignmentsRequest(topics=topics)
            said.append(str(client.ask(api_keys.LIST_PARTITION_REASSIGNMENTS, 0, request)))
    return said


def test_answers_are_those_of_kafka(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """B-D4.12: codes and texts."""
    name = topic(kafka, 2)
    theirs = said_by(int(kafka.bootstrap_servers.rpartition(":")[2]), 1, name)
    with Broker(brokers=2, topics={name: 2}) as broker:
        ours = said_by(broker.nodes[0].port, 1, name)
    assert list(ours) == list(theirs)
