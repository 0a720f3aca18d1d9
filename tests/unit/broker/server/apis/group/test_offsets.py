"""OffsetCommit, OffsetFetch and OffsetDelete as requests, in every version (B-E2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.server.acl import Acl, Operation, Permission, ResourceType
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fastprod.protocol.messages.group.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from support.broker.world import BrokerWorld


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    """A broker whose groups somebody has asked for."""
    with BrokerWorld(topics={"t": 3, "u": 1}) as made:
        made.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        yield made


def commit_request(
    *places: tuple[str, int], generation: int = -1, group_id: str = "g"
) -> OffsetCommitRequest:
    """Offsets that are ten times their partitions' numbers."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=10 * index,
                committed_leader_epoch=3,
                committed_metadata=None if index else "note",
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()
        ],
    )


def commit(
    world: BrokerWorld, *places: tuple[str, int], version: int = 8, **more: Any
) -> list[int]:
    answer = world.ask("OffsetCommit", version, commit_request(*places, **more))
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def fetch_request(version: int, *places: tuple[str, int]) -> OffsetFetchRequest:
    """No places: all."""
    names = list(dict.fromkeys(name for name, _ in places))
    indexes = {name: [index for each, index in places if each == name] for name in names}
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name=n, partition_indexes=indexes[n]) for n in names]
        group = OffsetFetchRequestGroup(group_id="g", topics=topics or None)
        return OffsetFetchRequest(groups=[group])
    old = [OffsetFetchRequestTopic(name=n, partition_indexes=indexes[n]) for n in names]
    return OffsetFetchRequest(group_id="g", topics=old or None)


def fetch(
    world: BrokerWorld, version: int, *places: tuple[str, int]
) -> tuple[int, dict[tuple[str, int], tuple[int, int, str | None, int]]]:
    """The group's error, and offset, leader epoch, metadata and error by partition."""
    answer = world.ask("OffsetFetch", version, fetch_request(version, *places))
    found = answer.groups[0] if version >= 8 else answer
    return found.error_code, {
        (topic.name, each.partition_index): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in found.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_committed_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2: unknown partitions fail by themselves; the leader epoch comes with version 6."""
    assert commit(world, ("t", 0), ("t", 1), ("t", 9), ("no", 0), version=version) == [
        NONE,
        NONE,
        UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_OR_PARTITION,
    ]
    epoch = 3 if version >= 6 else -1
    assert fetch(world, 8) == (
        NONE,
        {("t", 0): (0, epoch, "note", NONE), ("t", 1): (10, epoch, "", NONE)},
    )


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_are_fetched_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2: -1 where nothing was committed."""
    commit(world, ("t", 2))
    epoch = 3 if version >= 5 else -1
    code, found = fetch(world, version, ("t", 2), ("t", 1), ("no", 7))
    assert code == NONE
    assert found == {
        ("t", 2): (20, epoch, "", NONE),
        ("t", 1): (-1, -1, "", NONE),
        ("no", 7): (-1, -1, "", NONE),
    }
    if version >= 2:
        assert fetch(world, version) == (NONE, {("t", 2): (20, epoch, "", NONE)})


def test_many_groups_are_asked_for_at_once(world: BrokerWorld) -> None:
    """B-E2: from version 8 on."""
    commit(world, ("t", 1))
    commit(world, ("u", 0), group_id="h")
    names = ("g", "h", "none")
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in names]
    answer = world.ask("OffsetFetch", 8, OffsetFetchRequest(groups=groups))
    assert [each.group_id for each in answer.groups] == list(names)
    assert [[topic.name for topic in each.topics] for each in answer.groups] == [["t"], ["u"], []]
    assert {each.error_code for each in answer.groups} == {NONE}


def test_an_offset_may_be_kept_for_longer_than_any_clock_goes(world: BrokerWorld) -> None:
    """B-E2: retention_time_ms of old clients."""
    message = commit_request(("t", 0))
    message.retention_time_ms = 2**63 - 1
    (topic,) = world.ask("OffsetCommit", 2, message).topics
    assert [each.error_code for each in topic.partitions] == [NONE]


def test_each_offset_is_told_once_however_often_it_is_asked_for(world: BrokerWorld) -> None:
    """B-E2: a small request has no huge answer; a group that stands twice has all its topics."""
    commit(world, ("t", 0), ("t", 1), ("u", 0))
    old = fetch_request(7, *[("t", 0)] * 3, ("t", 1), ("t", 0))
    (told,) = world.ask("OffsetFetch", 7, old).topics
    assert [each.partition_index for each in told.partitions] == [0, 1]
    some = [fetch_request(8, *places).groups[0] for places in ([("t", 1)], [("u", 0), ("t", 1)])]
    for groups, places in (
        (some * 3, [("t", 1), ("u", 0)]),
        ([*some, fetch_request(8).groups[0]] * 2, [("t", 0), ("t", 1), ("u", 0)]),
    ):
        (group,) = world.ask("OffsetFetch", 8, OffsetFetchRequest(groups=groups)).groups
        found = [(topic.name, each.partition_index) for topic in group.topics
                 for each in topic.partitions]  # fmt: skip
        assert found == places


def test_a_member_of_no_group_is_told_so(world: BrokerWorld) -> None:
    """B-E2: as version 9 has it."""
    assert commit(world, ("t", 0), generation=4, version=8) == [ILLEGAL_GENERATION]
    assert commit(world, ("t", 0), generation=4, version=9) == [GROUP_ID_NOT_FOUND]


def test_nobody_coordinates_before_anybody_was_looked_for() -> None:
    """B-E1: with its error for all, or for each where there is none for all."""
    with BrokerWorld(topics={"t": 3}) as world:
        assert commit(world, ("t", 0)) == [COORDINATOR_NOT_AVAILABLE]
        assert fetch(world, 2, ("t", 0)) == (COORDINATOR_NOT_AVAILABLE, {})
        assert fetch(world, 8, ("t", 0)) == (COORDINATOR_NOT_AVAILABLE, {})
        _, found = fetch(world, 1, ("t", 0))
        assert found == {("t", 0): (-1, -1, "", COORDINATOR_NOT_AVAILABLE)}
        assert world.state.topics.get("__consumer_offsets") is None


def delete(world: BrokerWorld, *places: tuple[str, int]) -> tuple[int, list[int]]:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
        )
        for name, index in places
    ]
    answer = world.ask("OffsetDelete", 0, OffsetDeleteRequest(group_id="g", topics=topics))
    return answer.error_code, [
        each.error_code for topic in answer.topics for each in topic.partitions
    ]


def test_offsets_are_deleted(world: BrokerWorld) -> None:
    """B-E2"""
    assert delete(world, ("t", 0)) == (GROUP_ID_NOT_FOUND, [])
    commit(world, ("t", 0), ("u", 0))
    assert delete(world, ("t", 0), ("no", 0)) == (NONE, [NONE, UNKNOWN_TOPIC_OR_PARTITION])
    assert fetch(world, 8)[1].keys() == {("u", 0)}


def test_a_deleted_topic_takes_its_offsets_along(world: BrokerWorld) -> None:
    """B-D4.3"""
    commit(world, ("t", 0), ("u", 0))
    world.ask("DeleteTopics", 5, DeleteTopicsRequest(topic_names=["t"]))
    assert fetch(world, 8)[1].keys() == {("u", 0)}


def test_offsets_are_found_again_in_the_folder(tmp_path: Path) -> None:
    """B-E2"""
    with BrokerWorld(topics={"t": 3}, data_dir=tmp_path) as world:
        world.post("FindCoordinator", 0, FindCoordinatorRequest(key="g")).wait()
        assert commit(world, ("t", 2)) == [NONE]
    with BrokerWorld(data_dir=tmp_path) as world:
        assert fetch(world, 8)[1] == {("t", 2): (20, 3, "", NONE)}


def test_what_a_client_may_not_do_with_offsets(world: BrokerWorld) -> None:
    """B-D6.3: READ of the group and the topic, DESCRIBE to look, DELETE to delete."""
    commit(world, ("t", 0), ("u", 0))
    world.principal = "User:x"

    def allow(operation: Operation, kind: ResourceType, name: str) -> None:
        acl = Acl("User:x", Permission.ALLOW, operation, kind, name)
        world.state.authorizer.add([acl])

    allow(Operation.READ, ResourceType.TOPIC, "t")
    assert commit(world, ("t", 0)) == [GROUP_AUTHORIZATION_FAILED]
    assert fetch(world, 8) == (GROUP_AUTHORIZATION_FAILED, {})
    assert delete(world, ("t", 0)) == (GROUP_AUTHORIZATION_FAILED, [])
    allow(Operation.READ, ResourceType.GROUP, "g")
    assert commit(world, ("t", 0), ("u", 0)) == [NONE, TOPIC_AUTHORIZATION_FAILED]
    assert fetch(world, 8)[1].keys() == {("t", 0)}
    assert fetch(world, 8, ("u", 0))[1] == {("u", 0): (-1, -1, "", TOPIC_AUTHORIZATION_FAILED)}
    allow(Operation.DELETE, ResourceType.GROUP, "g")
    assert delete(world, ("t", 0), ("u", 0)) == (NONE, [NONE, TOPIC_AUTHORIZATION_FAILED])


def test_a_topic_that_is_deleted_and_made_again_gets_no_offset_of_before(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-D4.3: whoever was about to commit comes too late; a consumer would skip what is new."""
    manager = world.state.group_coordinator.manager
    find = manager.item

    def late(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        world.state.topic_deleted(world.state.topics.delete("t"))
        world.state.topics.create("t", 3)
        return find(*args, **more)

    monkeypatch.setattr(manager, "item", late)
    assert commit(world, ("t", 2), ("u", 0)) == [UNKNOWN_TOPIC_OR_PARTITION, NONE]
    assert fetch(world, 8) == (NONE, {("u", 0): (0, 3, "note", NONE)})
