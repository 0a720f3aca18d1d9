"""FindCoordinator (B-E1)."""

from __future__ import annotations

import pytest

from fastprod.broker.cluster.cluster import NodeAddress
from fastprod.broker.cluster.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from fastprod.error_codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, NONE
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.world import BrokerWorld


@pytest.mark.parametrize("version", range(5))
def test_every_version_finds_a_node(version: int) -> None:
    """B-E1."""
    asked = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])
    with BrokerWorld() as world:
        answer = world.ask("FindCoordinator", version, asked)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 0, "127.0.0.1", 9000)


def test_every_node_tells_the_same() -> None:
    """B-E1."""
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[f"key {n}" for n in range(20)])
    with BrokerWorld(brokers=3) as world:
        answers = [world.ask("FindCoordinator", 4, asked, node) for node in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [each.key for each in answers[0].coordinators] == asked.coordinator_keys
    assert {each.node_id for each in answers[0].coordinators} == {0, 1, 2}


@pytest.mark.parametrize(
    ("key", "key_type", "code"),
    [
        # The simple consumers of old clients have an empty group.
        ("", 0, NONE),
        ("", 1, INVALID_REQUEST),
        ("x", 1, NONE),
        ("g", 2, INVALID_REQUEST),
    ],
)
def test_an_empty_key_is_a_group_at_most(key: str, key_type: int, code: int) -> None:
    """B-E1."""
    with BrokerWorld() as world:
        asked = FindCoordinatorRequest(key=key, key_type=key_type)
        assert world.ask("FindCoordinator", 3, asked).error_code == code


def test_the_topic_of_groups_is_made_when_somebody_asks_for_one() -> None:
    """B-E1: and hidden."""
    with BrokerWorld(brokers=3, topics={"t": 1}) as world:
        world.ask("FindCoordinator", 3, FindCoordinatorRequest(key="x", key_type=1))
        assert world.state.topics.get(OFFSETS_TOPIC) is None
        transactions = world.state.topics.get(TRANSACTION_TOPIC)
        assert transactions is not None
        assert len(transactions.partitions) == 50
        asked = FindCoordinatorRequest(coordinator_keys=[f"group {n}" for n in range(20)])
        answers = [world.ask("FindCoordinator", 4, asked, node) for node in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert {each.node_id for each in answers[0].coordinators} == {0, 1, 2}
        topic = world.state.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 50
        told = world.ask("Metadata", 9, MetadataRequest(topics=None)).topics
        assert [each.name for each in told] == ["t"]
        named = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
        (found,) = world.ask("Metadata", 9, named).topics
        assert (found.error_code, found.is_internal, len(found.partitions)) == (NONE, True, 50)
    with BrokerWorld(show_internal_topics=True) as world:
        world.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        told = world.ask("Metadata", 9, MetadataRequest(topics=None)).topics
        assert [each.name for each in told] == [OFFSETS_TOPIC]


def test_a_group_whose_node_is_down_has_no_coordinator() -> None:
    """B-E1"""
    asked = FindCoordinatorRequest(key="g")
    with BrokerWorld(brokers=2, offsets_topic_replication_factor=1) as world:
        node_id = world.ask("FindCoordinator", 3, asked).node_id
        world.state.cluster.node_down(node_id, move_leaders=False)
        other = 1 - node_id
        answer = world.ask("FindCoordinator", 3, asked, other)
        assert (answer.error_code, answer.node_id) == (COORDINATOR_NOT_AVAILABLE, -1)
        world.state.cluster.node_up(NodeAddress(node_id, "127.0.0.1", 9000))
        world.state.cluster.node_down(node_id, move_leaders=True)
        assert world.ask("FindCoordinator", 3, asked, other).node_id == other


def test_without_room_for_the_topic_there_is_no_coordinator() -> None:
    """B-E1: a broker that stops."""
    with BrokerWorld() as world:
        world.state.topics.refuse_changes()
        answer = world.ask("FindCoordinator", 3, FindCoordinatorRequest(key="g"))
        assert answer.error_code == COORDINATOR_NOT_AVAILABLE
