"""ConsumerGroupHeartbeat and ConsumerGroupDescribe as requests, and who may send them (B-E3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastprod.broker.server.acl import Acl, Operation, Permission, ResourceType
from fastprod.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    INVALID_REQUEST,
    NONE,
    STALE_MEMBER_EPOCH,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
)
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.consumer_group_describe import ConsumerGroupDescribeRequest
from fastprod.protocol.messages.group.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fastprod.protocol.messages.group.list_groups import ListGroupsRequest
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from support.broker.world import BrokerWorld


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    """A broker whose groups somebody has asked for."""
    with BrokerWorld(topics={"t": 2, "u": 1}) as made:
        made.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        yield made


def topic_id(world: BrokerWorld, name: str) -> bytes:
    topic = world.state.topics.get(name)
    assert topic is not None
    return topic.id


def joining(**changed: Any) -> ConsumerGroupHeartbeatRequest:
    said: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**(said | changed))


def allow(world: BrokerWorld, kind: ResourceType, name: str, operation: Operation) -> None:
    acl = Acl("User:alice", Permission.ALLOW, operation, kind, name)
    world.state.authorizer.add([acl])


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_is_told_its_epoch_and_partitions(world: BrokerWorld, version: int) -> None:
    """B-E3"""
    answer = world.ask("ConsumerGroupHeartbeat", version, joining())
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (NONE, "m", 2)
    (given,) = answer.assignment.topic_partitions
    assert (bytes(given.topic_id), list(given.partitions)) == (topic_id(world, "t"), [0, 1])
    owned = [TopicPartitions(topic_id=topic_id(world, "t"), partitions=[0, 1])]
    living = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=2, topic_partitions=owned
    )
    answer = world.ask("ConsumerGroupHeartbeat", version, living)
    assert (answer.error_code, answer.assignment) == (NONE, None)
    refused = world.ask("ConsumerGroupHeartbeat", version, joining(topic_partitions=None))
    assert refused.error_code == INVALID_REQUEST
    assert "TopicPartitions" in refused.error_message


def test_a_group_is_described_and_listed(world: BrokerWorld) -> None:
    """B-E3"""
    world.ask("ConsumerGroupHeartbeat", 1, joining(instance_id="i", rack_id="r"))
    asked = ConsumerGroupDescribeRequest(group_ids=["g", "g", "h"])
    found, missing = world.ask("ConsumerGroupDescribe", 1, asked).groups
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 2, 2)
    (member,) = found.members
    assert (member.instance_id, member.rack_id, member.member_type) == ("i", "r", 1)
    for assignment in (member.assignment, member.target_assignment):
        (part,) = assignment.topic_partitions
        assert (part.topic_name, list(part.partitions)) == ("t", [0, 1])
    assert missing.error_code == GROUP_ID_NOT_FOUND
    assert missing.error_message == "Group h not found."
    for kinds, count in (([], 1), (["Consumer"], 1), (["classic"], 0)):
        listed = world.ask("ListGroups", 5, ListGroupsRequest(types_filter=kinds)).groups
        assert [each.group_type for each in listed] == ["consumer"] * count


def test_who_may_not_is_told_so(world: BrokerWorld) -> None:
    """B-E3, ACLs: READ of the group, DESCRIBE of each topic; likewise to have it described."""
    world.ask("ConsumerGroupHeartbeat", 1, joining())
    world.principal = "User:alice"
    allow(world, ResourceType.TOPIC, "u", Operation.DESCRIBE)
    assert world.ask("ConsumerGroupHeartbeat", 1, joining()).error_code == (
        GROUP_AUTHORIZATION_FAILED
    )
    asked = ConsumerGroupDescribeRequest(group_ids=["g"])
    (told,) = world.ask("ConsumerGroupDescribe", 1, asked).groups
    assert told.error_code == GROUP_AUTHORIZATION_FAILED
    allow(world, ResourceType.GROUP, "g", Operation.READ)
    for names in (["t"], ["u", "t"], ["nowhere"]):
        answer = world.ask("ConsumerGroupHeartbeat", 1, joining(subscribed_topic_names=names))
        assert answer.error_code == TOPIC_AUTHORIZATION_FAILED
    (told,) = world.ask("ConsumerGroupDescribe", 1, asked).groups
    assert (told.error_code, told.members) == (TOPIC_AUTHORIZATION_FAILED, [])
    named = joining(subscribed_topic_names=["u"], member_id="n")
    assert world.ask("ConsumerGroupHeartbeat", 1, named).error_code == NONE
    everything = joining(subscribed_topic_names=None, subscribed_topic_regex=".*", group_id="h")
    allow(world, ResourceType.GROUP, "h", Operation.READ)
    answer = world.ask("ConsumerGroupHeartbeat", 1, everything)
    (given,) = answer.assignment.topic_partitions
    assert bytes(given.topic_id) == topic_id(world, "u")
    asked = ConsumerGroupDescribeRequest(group_ids=["h"], include_authorized_operations=True)
    (told,) = world.ask("ConsumerGroupDescribe", 1, asked).groups
    # READ, and DESCRIBE, which it implies.
    assert told.authorized_operations == (1 << 3) | (1 << 8)


def test_offsets_by_topic_ids(world: BrokerWorld) -> None:
    """B-E3: OffsetCommit and OffsetFetch 10."""
    world.ask("ConsumerGroupHeartbeat", 1, joining())
    ids = [topic_id(world, "t"), b"?" * 16]
    place = OffsetCommitRequestPartition(partition_index=1, committed_offset=7)
    commit = OffsetCommitRequest(
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=2,
        topics=[OffsetCommitRequestTopic(topic_id=id, partitions=[place]) for id in ids],
    )
    topics = world.ask("OffsetCommit", 10, commit).topics
    assert [bytes(each.topic_id) for each in topics] == ids
    codes = [each.error_code for topic in topics for each in topic.partitions]
    assert codes == [NONE, UNKNOWN_TOPIC_ID]
    asked = [OffsetFetchRequestTopics(topic_id=id, partition_indexes=[1, 1]) for id in ids]
    for topics, epoch, code in ((asked, 2, NONE), (None, 2, NONE), (asked, 1, STALE_MEMBER_EPOCH)):
        group = OffsetFetchRequestGroup(
            group_id="g", member_id="m", member_epoch=epoch, topics=topics
        )
        (found,) = world.ask("OffsetFetch", 10, OffsetFetchRequest(groups=[group])).groups
        assert found.error_code == code
        told = [
            (bytes(topic.topic_id), each.committed_offset, each.error_code)
            for topic in found.topics
            for each in topic.partitions
        ]
        if code == NONE:
            assert told[0] == (ids[0], 7, NONE)
            assert told[1:] == ([(ids[1], -1, UNKNOWN_TOPIC_ID)] if topics else [])
