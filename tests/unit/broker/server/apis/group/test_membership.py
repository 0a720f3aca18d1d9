"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup as requests, in every version (B-E2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastprod.broker.server.acl import Acl, Operation, Permission, ResourceType
from fastprod.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.heartbeat import HeartbeatRequest
from fastprod.protocol.messages.group.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fastprod.protocol.messages.group.leave_group import LeaveGroupRequest, MemberIdentity
from fastprod.protocol.messages.group.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from support.broker.world import BrokerWorld
from support.groups.group_world import subscribed


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    """A broker whose groups somebody has asked for."""
    with BrokerWorld(topics={"t": 3}) as made:
        made.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        yield made


def join_request(member_id: str = "", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscribed("t"))],
    )


def sync_request(member_id: str, version: int, generation_id: int = 1) -> SyncGroupRequest:
    named = version >= 5
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer" if named else None,
        protocol_name="range" if named else None,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
    )


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2: from version 4 on with the id that it is given (KIP-394)."""
    answer = world.ask("JoinGroup", version, join_request())
    if version >= 4:
        assert (answer.error_code, answer.generation_id) == (MEMBER_ID_REQUIRED, -1)
        answer = world.ask("JoinGroup", version, join_request(answer.member_id))
    assert (answer.error_code, answer.generation_id) == (NONE, 1)
    assert answer.leader == answer.member_id != ""
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    (member,) = answer.members
    assert (member.member_id, member.metadata) == (answer.member_id, subscribed("t"))
    assert member.member_id.startswith("test-")


@pytest.mark.parametrize("version", range(6))
def test_the_leader_assigns_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2"""
    member_id = world.ask("JoinGroup", 0, join_request()).member_id
    answer = world.ask("SyncGroup", version, sync_request(member_id, version))
    assert (answer.error_code, answer.assignment) == (NONE, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


def test_a_sync_names_the_protocol_where_it_can(world: BrokerWorld) -> None:
    """B-E2: from version 5 on."""
    member_id = world.ask("JoinGroup", 0, join_request()).member_id
    answer = world.ask("SyncGroup", 5, sync_request(member_id, 4))
    assert answer.error_code == INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_answered_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2"""
    member_id = world.ask("JoinGroup", 0, join_request()).member_id
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert world.ask("Heartbeat", version, request).error_code == NONE
    request.member_id = "other"
    assert world.ask("Heartbeat", version, request).error_code == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(world: BrokerWorld, version: int) -> None:
    """B-E2: from version 3 on many at once, each with its own error."""
    member_id = world.ask("JoinGroup", 0, join_request()).member_id
    request = LeaveGroupRequest(
        group_id="g",
        member_id=member_id,
        members=[MemberIdentity(member_id="other"), MemberIdentity(member_id=member_id)],
    )
    answer = world.ask("LeaveGroup", version, request)
    assert answer.error_code == NONE
    codes = [each.error_code for each in answer.members]
    assert codes == ([UNKNOWN_MEMBER_ID, NONE] if version >= 3 else [])
    request.members = request.members[1:]
    answer = world.ask("LeaveGroup", version, request)
    code = answer.members[0].error_code if version >= 3 else answer.error_code
    assert code == UNKNOWN_MEMBER_ID


def test_a_join_waits_without_a_thread(world: BrokerWorld) -> None:
    """B-A5.6, B-E2: it is answered by whoever completes the rebalance."""
    first = world.ask("JoinGroup", 0, join_request()).member_id
    waiting = world.post("JoinGroup", 0, join_request())
    assert waiting.answer is None
    again = world.ask("JoinGroup", 0, join_request(first))
    joined: Any = waiting.answer
    assert joined.generation_id == again.generation_id == 2
    synced = world.post("SyncGroup", 0, sync_request(joined.member_id, 0, 2))
    assert synced.answer is None
    world.ask("SyncGroup", 0, sync_request(first, 0, 2))
    answer: Any = synced.answer
    assert answer.assignment == b""


def test_a_broker_that_stops_answers_who_waits() -> None:
    """B-E2, B-G4.7."""
    with BrokerWorld() as world:
        world.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        world.ask("JoinGroup", 0, join_request())
        waiting = world.post("JoinGroup", 0, join_request())
    assert waiting.answer.error_code != NONE


def test_who_may_not_read_the_group_is_no_member(world: BrokerWorld) -> None:
    """B-D6.3"""
    allow = Acl("User:x", Permission.ALLOW, Operation.READ, ResourceType.GROUP, "other")
    world.state.authorizer.add([allow])
    world.principal = "User:x"
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    asked = [
        ("JoinGroup", 9, join_request()),
        ("SyncGroup", 5, sync_request("m", 5)),
        ("Heartbeat", 4, heartbeat),
        ("LeaveGroup", 5, leave),
    ]
    for name, version, message in asked:
        assert world.ask(name, version, message).error_code == GROUP_AUTHORIZATION_FAILED
    world.state.authorizer.add([allow._replace(name="g")])
    assert world.ask("JoinGroup", 9, join_request()).error_code == MEMBER_ID_REQUIRED
