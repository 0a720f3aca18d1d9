"""Metadata and DescribeCluster (B-D4, B-B1.2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.describe_cluster import DescribeClusterRequest
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.world import BrokerWorld


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=3, topics={"a": 3, "b": 1}) as made:
        yield made


def request(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )


def everything(version: int) -> MetadataRequest:
    return MetadataRequest(topics=None if version else [])


@pytest.mark.parametrize("version", range(12))
def test_every_version_tells_of_all_topics(world: BrokerWorld, version: int) -> None:
    """B-D4.1: in version 0 an empty list is all of them, from 1 on null."""
    answer = world.ask("Metadata", version, everything(version))
    assert [(each.name, len(each.partitions)) for each in answer.topics] == [("a", 3), ("b", 1)]
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (0, "127.0.0.1", 9000),
        (1, "127.0.0.1", 9001),
        (2, "127.0.0.1", 9002),
    ]
    assert [each.leader_id for each in answer.topics[0].partitions] == [0, 1, 2]
    if version >= 1:
        assert answer.controller_id == 0
    if version >= 2:
        assert answer.cluster_id == world.state.cluster.cluster_id
    if version >= 7:
        assert {each.leader_epoch for each in answer.topics[0].partitions} == {0}
    if version >= 10:
        topic = world.state.topics.get("a")
        assert topic is not None
        assert answer.topics[0].topic_id == topic.id != bytes(16)


@pytest.mark.parametrize("version", [1, 9, 11])
def test_an_empty_list_asks_for_no_topics(world: BrokerWorld, version: int) -> None:
    """B-D4.1"""
    assert world.ask("Metadata", version, request()).topics == []


def test_a_topic_is_told_once_whatever_ids_come_with_its_name(world: BrokerWorld) -> None:
    """B-D4.1: otherwise a small request could have a huge answer."""
    asked = [MetadataRequestTopic(name="a", topic_id=bytes([n]) * 16) for n in range(5)]
    answer = world.ask("Metadata", 11, MetadataRequest(topics=asked))
    assert [each.name for each in answer.topics] == ["a"]


@pytest.mark.parametrize("version", [0, 3, 4, 11])
def test_an_unknown_topic_is_made_and_can_be_used_at_once(world: BrokerWorld, version: int) -> None:
    """B-D4.2"""
    (topic,) = world.ask("Metadata", version, request("new")).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (NONE, "new", 1)
    assert world.state.topics.get("new") is not None


def test_a_topic_is_not_made_for_a_client_that_does_not_want_it(world: BrokerWorld) -> None:
    """B-D4.1: from version 4 on it can say so."""
    (topic,) = world.ask("Metadata", 4, request("new", create=False)).topics
    assert topic.error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert world.ask("Metadata", 3, request("new", create=False)).topics[0].error_code == 0


def test_a_topic_is_not_made_by_a_broker_that_does_not_want_it() -> None:
    with BrokerWorld(auto_create_topics_enable=False) as world:
        (topic,) = world.ask("Metadata", 9, request("new")).topics
        assert topic.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["not legal", "__consumer_offsets", "__transaction_state", ".."])
@pytest.mark.parametrize("create", [True, False])
def test_a_name_that_cannot_be_is_an_invalid_topic(
    world: BrokerWorld, name: str, create: bool
) -> None:
    """B-D4.1, B-E1"""
    (topic,) = world.ask("Metadata", 9, request(name, create=create)).topics
    assert topic.error_code == INVALID_TOPIC_EXCEPTION


def test_a_new_topic_may_be_made_to_take_its_time() -> None:
    """B-D4.2: as real Kafka does it."""
    clock = FakeClock()
    with BrokerWorld(clock=clock, metadata_lag_ms=100) as world:
        clock.advance(1)
        for wait_ms, code in ((0, 5), (99.9, 5), (0.1, 0)):
            clock.advance(wait_ms)
            assert world.ask("Metadata", 9, request("new")).topics[0].error_code == code


def test_a_node_that_is_down_leaves_and_its_partitions_have_no_leader(world: BrokerWorld) -> None:
    """B-D4.4"""
    world.state.cluster.node_down(0, move_leaders=False)
    answer = world.ask("Metadata", 9, request("a"), node_id=1)
    assert [each.node_id for each in answer.brokers] == [1, 2]
    assert answer.controller_id == 1
    first, second, _ = answer.topics[0].partitions
    assert (first.error_code, first.leader_id) == (LEADER_NOT_AVAILABLE, -1)
    assert (first.replica_nodes, first.offline_replicas) == ((0,), (0,))
    assert (second.error_code, second.leader_id, second.offline_replicas) == (0, 1, ())


def test_a_leader_that_is_down_is_none(world: BrokerWorld) -> None:
    """B-B2: a test may move a partition to a node that is down; clients cannot find it."""
    partition = world.state.topics.partition("a", 0)
    assert partition is not None
    world.state.cluster.node_down(2, True)
    world.state.cluster.move_leader(partition, 2)
    told = world.ask("Metadata", 9, request("a")).topics[0].partitions[0]
    assert (told.error_code, told.leader_id) == (LEADER_NOT_AVAILABLE, -1)


def test_operations_are_told_to_who_asks(world: BrokerWorld) -> None:
    asked = request("a", "b")
    unasked = world.ask("Metadata", 9, asked)
    assert unasked.topics[0].topic_authorized_operations == -(2**31)
    asked.include_topic_authorized_operations = True
    asked.include_cluster_authorized_operations = True
    answer = world.ask("Metadata", 9, asked)
    assert answer.topics[0].topic_authorized_operations > 0
    assert answer.cluster_authorized_operations > 0


@pytest.mark.parametrize("version", [0, 1])
def test_the_cluster_is_described(world: BrokerWorld, version: int) -> None:
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = world.ask("DescribeCluster", version, asked)
    assert (answer.error_code, answer.controller_id) == (NONE, 0)
    assert answer.cluster_id == world.state.cluster.cluster_id
    assert [each.broker_id for each in answer.brokers] == [0, 1, 2]
    assert answer.cluster_authorized_operations > 0


def test_controllers_of_their_own_there_are_none(world: BrokerWorld) -> None:
    asked = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    answer = world.ask("DescribeCluster", 1, asked)
    assert answer.error_code == MISMATCHED_ENDPOINT_TYPE
