"""The newest versions of Produce, Fetch, ListOffsets and others: answers are those of Kafka 4.3."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from conftest import TopicFactory
from fastprod.broker import Broker
from fastprod.broker.api_table import ApiTable
from fastprod.error_codes import NOT_LEADER_OR_FOLLOWER
from fastprod.protocol import api_keys
from fastprod.protocol.messages.api_versions import ApiVersionsRequest
from fastprod.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from fastprod.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from fastprod.protocol.messages.replica.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from fastprod.protocol.messages.transaction.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from fastprod.protocol.messages.transaction.list_transactions import ListTransactionsRequest
from fastprod.protocol.messages.transaction.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafka_cluster import KafkaCluster
from support.broker.sasl_client import SaslClient
from support.broker.world import batch_of

TIMEOUT_S = 30.0
UNKNOWN = b"?" * 16
TIMESTAMP = 1_700_000_000_000

Said = list[tuple[str, Any]]


def produced(client: SaslClient, version: int, name: str, ids: list[bytes]) -> Any:
    """Error, offset and text of one batch for each topic."""
    topics = [
        TopicProduceData(
            name=name,
            topic_id=each,
            partition_data=[
                PartitionProduceData(
                    index=0, records=memoryview(batch_of(b"a", timestamp=TIMESTAMP))
                )
            ],
        )
        for each in ids
    ]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
    answer = client.ask(api_keys.PRODUCE, version, request)
    return [
        (ids.index(topic.topic_id), each.error_code, each.base_offset, each.error_message)
        for topic in answer.responses
        for each in topic.partition_responses
    ], answer.node_endpoints


def fetched(client: SaslClient, version: int, ids: list[bytes], epoch: int, offset: int) -> Any:
    topics = [
        FetchTopic(
            topic_id=each,
            partitions=[
                FetchPartition(
                    partition=index,
                    fetch_offset=offset,
                    partition_max_bytes=1 << 20,
                    current_leader_epoch=epoch,
                )
                for index in (0, 7)
            ],
        )
        for each in ids
    ]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
    answer = client.ask(api_keys.FETCH, version, request)
    found = [
        (
            ids.index(topic.topic_id),
            each.partition_index,
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
            len(bytes(each.records)) > 0,
            each.current_leader.leader_id >= 0,
        )
        for topic in answer.responses
        for each in topic.partitions
    ]
    return answer.error_code, sorted(found), len(answer.node_endpoints)


def offsets(client: SaslClient, version: int, topic: str) -> Any:
    """What each special timestamp gives that this version has."""
    found = {}
    for at in range(-6, 0):
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=at)],
                )
            ],
        )
        (each,) = client.ask(api_keys.LIST_OFFSETS, version, request).topics[0].partitions
        found[at] = each.error_code, each.offset, each.timestamp, each.leader_epoch >= 0
    return found


def listed_by_pattern(client: SaslClient, pattern: str) -> Any:
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
    )
    answer = client.ask(api_keys.LIST_TRANSACTIONS, 2, request)
    return answer.error_code, answer.transaction_states


def log_dirs(client: SaslClient, version: int, topic: str) -> Any:
    """What there is of a topic with two partitions in a node's folder of logs."""
    asked = [
        DescribableLogDirTopic(topic=topic, partitions=[1, 0, 7]),
        DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    request = DescribeLogDirsRequest(topics=asked)
    answer = client.ask(api_keys.DESCRIBE_LOG_DIRS, version, request)
    found = [
        (each.error_code, each.is_cordoned, [(t.name, sorted(t.partitions)) for t in each.topics])
        for each in answer.results
    ]
    has_room = [each.total_bytes >= each.usable_bytes > 0 for each in answer.results]
    return answer.error_code, found, has_room


def marked(client: SaslClient, topic: str, *markers: tuple[int, int, int, int]) -> Any:
    """What becomes of markers: version of the request and of the transaction, producer, epoch."""
    found = []
    for version, kind, producer_id, epoch in markers:
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[1, 9])],
            coordinator_epoch=0,
            transaction_version=kind,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        (told,) = client.ask(api_keys.WRITE_TXN_MARKERS, version, request).markers
        codes = {
            each.partition_index: each.error_code for t in told.topics for each in t.partitions
        }
        found.append((told.producer_id, codes))
    return found


def ended(client: SaslClient, port: int, topic: str) -> Any:
    """What becomes of markers for a producer without a transaction, and for one with it."""
    batch = batch_of(b"a", producer_id=77, producer_epoch=5, base_sequence=0)
    sent = PartitionProduceData(index=1, records=memoryview(batch))
    data = [TopicProduceData(name=topic, partition_data=[sent])]
    client.ask(api_keys.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data))
    found = [
        marked(client, topic, (1, 0, 77, 5), (1, 0, 77, 4)),
        marked(client, topic, *((2, kind, 77, epoch) for kind in range(4) for epoch in (5, 4, 6))),
    ]
    opened = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": "markers"})
    opened.init_transactions(TIMEOUT_S)
    opened.begin_transaction()
    opened.produce(topic, b"a", partition=1)
    assert opened.flush(TIMEOUT_S) == 0
    asked = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[1])])
    (told,) = client.ask(api_keys.DESCRIBE_PRODUCERS, 0, asked).topics[0].partitions
    (by,) = [each for each in told.active_producers if each.current_txn_start_offset >= 0]
    id, epoch = by.producer_id, by.producer_epoch
    late = marked(client, topic, (2, 2, id, epoch), (2, 3, id, epoch))
    found.append([codes for _, codes in late])
    again = marked(client, topic, (2, 1, id, epoch), (2, 2, id, epoch), (2, 2, id, epoch + 1))
    found.append([codes for _, codes in again])
    return found


def said_by(port: int, topic: str) -> Said:
    said: Said = []
    with SaslClient(port) as client:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        (told,) = client.ask(api_keys.METADATA, 13, asked).topics
        ids = [told.topic_id, UNKNOWN]
        epoch = told.partitions[0].leader_epoch
        # A new topic's leader does not know at once that it is one.
        deadline = time.monotonic() + TIMEOUT_S
        while produced(client, 13, "", ids[:1])[0][0][1] == NOT_LEADER_OR_FOLLOWER:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        said.append(("Produce 12", produced(client, 12, topic, [bytes(16)])))
        said.append(("Produce 13", produced(client, 13, "", ids)))
        for version in range(13, 19):
            for at in (epoch, epoch - 1, epoch + 1, -1):
                for offset in (0, 99):
                    found = fetched(client, version, ids, at, offset)
                    said.append((f"Fetch {version}, {at - epoch}, {offset}", found))
        said += [(f"ListOffsets {n}", offsets(client, n, topic)) for n in range(7, 12)]
        said += [(f"DescribeLogDirs {n}", log_dirs(client, n, topic)) for n in range(1, 6)]
        # Once somebody has asked for a coordinator Kafka has some that load for a moment.
        said += [("an expression that is none", listed_by_pattern(client, "(")[0])]
        said.append(("WriteTxnMarkers", ended(client, port, topic)))
    return said


def test_answers_are_those_of_kafka(
    kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """B-B1, B-D1 UNKNOWN_TOPIC_ID: topic ids (KIP-516), leaders in answers (KIP-951), offsets of
    tiers, folders of logs, markers of transactions (KIP-1228).
    """
    name = topic(kafka, 2)
    theirs = said_by(int(kafka.bootstrap_servers.rpartition(":")[2]), name)
    with Broker(topics={name: 2}, data_dir=tmp_path) as broker:
        ours = said_by(broker.nodes[0].port, name)
    different = [
        (what, mine, told)
        for (what, mine), (_, told) in zip(ours, theirs, strict=True)
        if mine != told
    ]
    assert different == []


def test_versions_are_those_of_kafka(kafka: KafkaCluster) -> None:
    """B-B1: every API that is listed has the versions of Kafka 4.3."""
    with SaslClient(int(kafka.bootstrap_servers.rpartition(":")[2])) as client:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        rows = client.ask(api_keys.API_VERSIONS, 4, request).api_keys
    theirs = {each.api_key: (each.min_version, each.max_version) for each in rows}
    table = ApiTable()
    for each in table.api_versions():
        listed = (each.min_version, each.max_version)
        assert listed == theirs[each.api_key], each
