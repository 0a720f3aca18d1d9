"""ListGroups, DescribeGroups and DeleteGroups as requests, in every version (B-E2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastprod.broker.server.acl import CLUSTER_NAME, Acl, Operation, Permission, ResourceType
from fastprod.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP,
    NONE,
)
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.delete_groups import DeleteGroupsRequest
from fastprod.protocol.messages.group.describe_groups import DescribeGroupsRequest
from fastprod.protocol.messages.group.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fastprod.protocol.messages.group.leave_group import LeaveGroupRequest
from fastprod.protocol.messages.group.list_groups import ListGroupsRequest
from fastprod.protocol.messages.metadata import UNKNOWN_OPERATIONS
from support.broker.world import BrokerWorld
from support.groups.group_world import subscribed


def join(world: BrokerWorld, group_id: str) -> str:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscribed("t"))],
    )
    found: str = world.ask("JoinGroup", 0, request).member_id
    return found


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    """Groups g, with a member, and h, without."""
    with BrokerWorld(topics={"t": 3}) as made:
        made.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        join(made, "g")
        made.ask("LeaveGroup", 0, LeaveGroupRequest(group_id="h", member_id=join(made, "h")))
        yield made


def listed(world: BrokerWorld, version: int = 5, **filters: list[str]) -> list[str]:
    answer = world.ask("ListGroups", version, ListGroupsRequest(**filters))
    assert answer.error_code == NONE
    assert {each.protocol_type for each in answer.groups} <= {"consumer"}
    return sorted(each.group_id for each in answer.groups)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2"""
    assert listed(world, version) == ["g", "h"]


def test_groups_are_listed_by_state_and_type(world: BrokerWorld) -> None:
    """B-E2: states from version 4 on, types from 5."""
    assert listed(world, states_filter=["empty"]) == ["h"]
    assert listed(world, states_filter=["Empty", "CompletingRebalance"]) == ["g", "h"]
    assert listed(world, types_filter=["Classic"]) == ["g", "h"]
    assert listed(world, types_filter=["consumer"]) == []
    answer = world.ask("ListGroups", 5, ListGroupsRequest(states_filter=["Empty"]))
    assert (answer.groups[0].group_state, answer.groups[0].group_type) == ("Empty", "classic")


def test_without_groups_nothing_is_listed() -> None:
    """B-E1: nor is anything made for it."""
    with BrokerWorld() as world:
        assert listed(world) == []
        assert world.state.topics.all() == []


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2: one that is not there is dead; from version 6 on it is an error."""
    names = ["g", "h", "none", "g"]
    answer = world.ask("DescribeGroups", version, DescribeGroupsRequest(groups=names))
    states = [(each.group_id, each.group_state, len(each.members)) for each in answer.groups]
    assert states == [("g", "CompletingRebalance", 1), ("h", "Empty", 0), ("none", "Dead", 0)]
    missing = answer.groups[2]
    assert missing.error_code == (GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    assert missing.error_message == ("Group none not found." if version >= 6 else None)
    (member,) = answer.groups[0].members
    assert (member.client_id, member.client_host) == ("test", "/b")
    assert answer.groups[0].authorized_operations == UNKNOWN_OPERATIONS


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2"""
    request = DeleteGroupsRequest(groups_names=["g", "h", "none"])
    answer = world.ask("DeleteGroups", version, request)
    assert {each.group_id: each.error_code for each in answer.results} == {
        "g": NON_EMPTY_GROUP,
        "h": NONE,
        "none": GROUP_ID_NOT_FOUND,
    }
    assert listed(world) == ["g"]


def test_what_a_client_may_not_know_and_do(world: BrokerWorld) -> None:
    """B-D6.3"""
    world.principal = "User:x"

    def allow(operation: Operation, name: str, kind: ResourceType = ResourceType.GROUP) -> None:
        world.state.authorizer.add([Acl("User:x", Permission.ALLOW, operation, kind, name)])

    allow(Operation.DESCRIBE, "h")
    assert listed(world) == ["h"]
    names = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    denied, allowed = world.ask("DescribeGroups", 5, names).groups
    assert (denied.error_code, denied.group_state) == (GROUP_AUTHORIZATION_FAILED, "")
    assert (allowed.error_code, allowed.authorized_operations) == (NONE, 1 << Operation.DESCRIBE)
    deleted = world.ask("DeleteGroups", 2, DeleteGroupsRequest(groups_names=["h"]))
    assert deleted.results[0].error_code == GROUP_AUTHORIZATION_FAILED
    allow(Operation.DESCRIBE, CLUSTER_NAME, ResourceType.CLUSTER)
    assert listed(world) == ["g", "h"]
    allow(Operation.DELETE, "h")
    deleted = world.ask("DeleteGroups", 2, DeleteGroupsRequest(groups_names=["h"]))
    assert deleted.results[0].error_code == NONE
