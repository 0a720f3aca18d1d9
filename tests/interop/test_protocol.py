"""Our messages against real servers: Apache Kafka, and confluent-kafka's mock cluster."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastprod.client.connections.api_versions import (
    CLIENT_VERSIONS,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
)
from fastprod.client.metadata.metadata_answer import NO_TOPIC_ID, metadata_request, read_metadata
from fastprod.client.producer_id import producer_id_request, read_producer_id
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.protocol.messages.init_producer_id import InitProducerIdResponse
from fastprod.protocol.messages.metadata import MetadataResponse
from fastprod.protocol.messages.transaction import end_txn
from kafka_cluster import KafkaCluster
from mock_cluster import MockCluster

TIMEOUT_S = 30.0
NAME = ("fastprod", "0.1")


class Connection:
    """One blocking connection: a frame out, a frame back."""

    def __init__(self, server: socket.socket) -> None:
        self._socket = server

    def ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        size = int.from_bytes(self._take(4), "big")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, f"the server closed the connection after {len(data)} of {size} bytes"
            data += part
        return data


@contextmanager
def connected(servers: str) -> Iterator[Connection]:
    host, _, port = servers.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as server:
        yield Connection(server)


def until(found: Callable[[], bool]) -> None:
    """Ask until it is so: brokers learn of a new topic one after the other."""
    deadline = time.monotonic() + TIMEOUT_S
    while not found():
        assert time.monotonic() < deadline, f"not so within {TIMEOUT_S} s"


def test_kafka_understands_every_version_of_the_first_exchange(kafka: KafkaCluster) -> None:
    """P-G.5.1 to P-G.5.6, P-J.4."""
    for version in range(5):
        with connected(kafka.bootstrap_servers) as broker:
            payload = broker.ask(api_versions_request(version, 7, "fp", *NAME))
            correlation_id, answer = parse_api_versions_response(version, payload)
            assert (correlation_id, answer.error_code) == (7, 0)
            for api_key in (PRODUCE, METADATA, INIT_PRODUCER_ID):
                assert answer.pick(api_key) == CLIENT_VERSIONS[api_key][1]


def test_kafka_answers_a_version_it_does_not_know_in_version_0(kafka: KafkaCluster) -> None:
    """P-G.5.3: the version to ask again with, on the same connection."""
    with connected(kafka.bootstrap_servers) as broker:
        frame = bytearray(api_versions_request(4, 7, "fp", *NAME))
        frame[6:8] = (99).to_bytes(2, "big")
        _, answer = parse_api_versions_response(4, broker.ask(bytes(frame)))
        assert answer.error_code == 35
        highest = answer.versions[API_VERSIONS][1]
        assert retry_version(99, answer) == highest
        again = broker.ask(api_versions_request(min(highest, 4), 8, "fp", *NAME))
        assert parse_api_versions_response(4, again)[1].error_code == 0


def test_kafka_understands_every_version_of_a_metadata_request(
    kafka: KafkaCluster, topic: Callable[..., str]
) -> None:
    """P-H.2.8, P-J.2.2, P-J.3.1, P-J.4."""
    name = topic(kafka, partitions=3)
    low, high = CLIENT_VERSIONS[METADATA]
    with connected(kafka.bootstrap_servers) as broker:
        for version in range(low, high + 1):

            def ask(topics: list[str] | None, version: int = version) -> MetadataResponse:
                frame = metadata_request(version, 7, "fp", topics, False)
                return read_metadata(version, broker.ask(frame))

            response = ask([name, "no such topic!", f"{name}-missing"])
            by_name = {found.name: found for found in response.topics}
            known, invalid, missing = (
                by_name[asked] for asked in (name, "no such topic!", f"{name}-missing")
            )
            assert (invalid.error_code, missing.error_code) == (17, 3)
            assert (known.name, known.error_code, known.is_internal) == (name, 0, False)
            assert (known.topic_id != NO_TOPIC_ID) == (version >= 10)
            assert sorted(p.partition_index for p in known.partitions) == [0, 1, 2]
            for partition in known.partitions:
                assert (partition.leader_id, partition.replica_nodes) == (1, (1,))
                assert (partition.leader_epoch >= 0) == (version >= 9)
            assert [node.node_id for node in response.brokers] == [1]
            assert (response.error_code, response.cluster_id is None) == (0, False)
            assert ask([]).topics == []
            everything = ask(None).topics
            assert name in {found.name for found in everything}


def test_kafka_gives_producer_ids_in_every_version(kafka: KafkaCluster) -> None:
    """P-F.5.1, P-J.2.3, P-J.4."""
    low, high = CLIENT_VERSIONS[INIT_PRODUCER_ID]
    with connected(kafka.bootstrap_servers) as broker:
        ids = set()
        for version in range(low, high + 1):

            def ask(version: int = version) -> InitProducerIdResponse:
                frame = producer_id_request(version, "fp")
                return read_producer_id(version, broker.ask(frame))

            # A fresh broker loads its block of ids first (COORDINATOR_LOAD_IN_PROGRESS).
            until(lambda: ask().error_code == 0)
            answer = ask()
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            ids.add(answer.producer_id)
        assert len(ids) == high - low + 1


def test_kafka_understands_what_is_written_from_tables(kafka: KafkaCluster) -> None:
    """P-G.9, P-J.1: an answer, even an error, means that the request was parsed."""
    message = end_txn.EndTxnRequest(
        transactional_id="fastprod-unknown", producer_id=4000, producer_epoch=7, committed=True
    )
    with connected(kafka.bootstrap_servers) as broker:
        for version in range(end_txn.API.versions[1] + 1):
            frame = end_txn.API.request_frame(version, 7, "fp", message)
            correlation_id, answer = end_txn.API.read_response(version, broker.ask(frame))
            assert correlation_id == 7
            assert answer.error_code != 0


def test_the_mock_cluster_is_talked_down_to_a_version_it_knows(mock_cluster: MockCluster) -> None:
    """P-G.5.3: it answers version 4 with error 35 in a body that is not version 0's."""
    with connected(mock_cluster.bootstrap_servers) as broker:
        version: int | None = 4
        tried = []
        while version is not None:
            tried.append(version)
            payload = broker.ask(api_versions_request(version, 7, "fp", *NAME))
            _, answer = parse_api_versions_response(version, payload)
            if answer.error_code == 0:
                break
            version = retry_version(version, answer)
        assert version is not None, f"refused after versions {tried}"
        picked = answer.pick(METADATA)
        payload = broker.ask(metadata_request(picked, 8, "fp", ["t"]))
        response = read_metadata(picked, payload)
        assert [found.name for found in response.topics] == ["t"]
        assert len(response.brokers) == 1
        assert tried == [4, 0]
