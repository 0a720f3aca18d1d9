"""JoinGroup, key 11."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import JOIN_GROUP
from fastprod.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Array, field, message


@message
class JoinGroupRequestProtocol:
    """A protocol that the member can follow, and what the leader needs to know for it."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@message
class JoinGroupRequest:
    """A client wants to be a member; without a member id it gets one."""

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, "1+", default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_type: str = field(STRING)
    protocols: list[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, "8+", nullable="8+", default=None)


@message
class JoinGroupResponseMember:
    """A member as the leader is told of it."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "5+", nullable="5+", default=None)
    metadata: bytes = field(BYTES)


@message
class JoinGroupResponse:
    """The new generation; the members are for the leader alone."""

    throttle_time_ms: int = field(INT32, "2+")
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, "7+", nullable="7+", default=None)
    protocol_name: str | None = field(STRING, nullable="7+")
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, "9+")
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember))


API = Api(JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, versions=(0, 9), flexible_from=6)
