"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: who is in a group (B-E2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from fastprod.broker.coordinator.group.group_coordinator import GroupCoordinator
from fastprod.broker.coordinator.group.member_metadata import (
    JoinGroupResult,
    Joining,
    Leaving,
    SyncGroupResult,
    Syncing,
)
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.error_codes import GROUP_AUTHORIZATION_FAILED, INCONSISTENT_GROUP_PROTOCOL, NONE
from fastprod.protocol.messages.group.heartbeat import HeartbeatRequest, HeartbeatResponse
from fastprod.protocol.messages.group.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from fastprod.protocol.messages.group.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from fastprod.protocol.messages.group.sync_group import SyncGroupRequest, SyncGroupResponse

# In earlier versions the session's time-out is the one of rebalances, too.
_FIRST_REBALANCE_TIMEOUT_VERSION: Final = 1
_FIRST_KNOWN_ID_VERSION: Final = 4
_FIRST_NULL_PROTOCOL_VERSION: Final = 7
_FIRST_SKIPPING_VERSION: Final = 9
_FIRST_SYNC_PROTOCOL_VERSION: Final = 5
_FIRST_LEAVE_MANY_VERSION: Final = 3

M = TypeVar("M")
R = TypeVar("R")


def may_read_group(call: Call[Any], group_id: str) -> bool:
    """Whether the client may be a member of the group."""
    return call.allows(Operation.READ, ResourceType.GROUP, group_id)


def _guarded(call: Call[M], answer: Callable[[Call[M], R], None]) -> Callable[[R], None]:
    """What answers with a result later, on a thread that serves somebody else."""

    def respond(result: R) -> None:
        try:
            answer(call, result)
        except Exception as error:
            call.failed(error)

    return respond


class GroupApi:
    """What the APIs about groups have in common. Any thread.

    Args:
        coordinator: of all groups.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator


class JoinGroupApi(GroupApi):
    """Handles JoinGroup. Any thread."""

    def handle(self, call: Call[JoinGroupRequest]) -> None:
        """Answer when the next generation begins, or at once."""
        message = call.message
        if not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        has_rebalance_timeout = call.version >= _FIRST_REBALANCE_TIMEOUT_VERSION
        joining = Joining(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            call.request.header.client_id or "",
            f"/{call.request.connection.client_address}",
            message.session_timeout_ms,
            message.rebalance_timeout_ms if has_rebalance_timeout else message.session_timeout_ms,
            message.protocol_type,
            [(each.name, each.metadata) for each in message.protocols],
            requires_known_id=call.version >= _FIRST_KNOWN_ID_VERSION,
            supports_skipping=call.version >= _FIRST_SKIPPING_VERSION,
        )
        self._coordinator.join_group(joining, call.node_id, _guarded(call, self._answer))

    def refuse(self, call: Call[JoinGroupRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        self._answer(call, JoinGroupResult(code, call.message.member_id))

    def _answer(self, call: Call[JoinGroupRequest], result: JoinGroupResult) -> None:
        name = result.protocol_name
        if name is None and call.version < _FIRST_NULL_PROTOCOL_VERSION:
            name = ""
        call.answer(
            JoinGroupResponse(
                error_code=result.error,
                generation_id=result.generation_id,
                protocol_type=result.protocol_type,
                protocol_name=name,
                leader=result.leader_id,
                skip_assignment=result.skips_assignment,
                member_id=result.member_id,
                members=[
                    JoinGroupResponseMember(
                        member_id=each.member_id,
                        group_instance_id=each.group_instance_id,
                        metadata=each.metadata,
                    )
                    for each in result.members
                ],
            )
        )


class SyncGroupApi(GroupApi):
    """Handles SyncGroup. Any thread."""

    def handle(self, call: Call[SyncGroupRequest]) -> None:
        """Answer when the leader has assigned, or at once."""
        message = call.message
        names_protocol = message.protocol_type is not None and message.protocol_name is not None
        if call.version >= _FIRST_SYNC_PROTOCOL_VERSION and not names_protocol:
            self.refuse(call, INCONSISTENT_GROUP_PROTOCOL, None)
            return
        if not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        syncing = Syncing(
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            message.protocol_type,
            message.protocol_name,
            {each.member_id: each.assignment for each in message.assignments},
        )
        self._coordinator.sync_group(syncing, call.node_id, _guarded(call, self._answer))

    def refuse(self, call: Call[SyncGroupRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        self._answer(call, SyncGroupResult(code))

    def _answer(self, call: Call[SyncGroupRequest], result: SyncGroupResult) -> None:
        call.answer(
            SyncGroupResponse(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )


class HeartbeatApi(GroupApi):
    """Handles Heartbeat. Any thread."""

    def handle(self, call: Call[HeartbeatRequest]) -> None:
        """Answer whether the client is still a member."""
        message = call.message
        if not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        code = self._coordinator.heartbeat(
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            call.node_id,
        )
        call.answer(HeartbeatResponse(error_code=code))

    def refuse(self, call: Call[HeartbeatRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(HeartbeatResponse(error_code=code))


class LeaveGroupApi(GroupApi):
    """Handles LeaveGroup. Any thread."""

    def handle(self, call: Call[LeaveGroupRequest]) -> None:
        """Take the members out, and answer for each."""
        group_id = call.message.group_id
        if not may_read_group(call, group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        members = _leaving(call)
        leaving = [Leaving(each.member_id, each.group_instance_id) for each in members]
        code, codes = self._coordinator.leave_group(group_id, leaving, call.node_id)
        if call.version < _FIRST_LEAVE_MANY_VERSION:
            call.answer(LeaveGroupResponse(error_code=code if code != NONE else codes[0]))
            return
        left = [
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=its_code,
            )
            # Without the members if all are refused.
            for each, its_code in zip(members, codes, strict=False)
        ]
        call.answer(LeaveGroupResponse(error_code=code, members=left))

    def refuse(self, call: Call[LeaveGroupRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(LeaveGroupResponse(error_code=code))


def _leaving(call: Call[LeaveGroupRequest]) -> list[MemberIdentity]:
    if call.version < _FIRST_LEAVE_MANY_VERSION:
        return [MemberIdentity(member_id=call.message.member_id)]
    return call.message.members
