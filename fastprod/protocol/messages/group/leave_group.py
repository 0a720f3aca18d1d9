"""LeaveGroup, key 13."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import LEAVE_GROUP
from fastprod.protocol.schema import INT16, INT32, STRING, Array, field, message


@message
class MemberIdentity:
    """A member that leaves, by its id or by its instance's."""

    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    reason: str | None = field(STRING, "5+", nullable="5+", default=None)


@message
class LeaveGroupRequest:
    """Members leave: one, from version 3 on many."""

    group_id: str = field(STRING)
    member_id: str = field(STRING, "0-2")
    members: list[MemberIdentity] = field(Array(MemberIdentity), "3+")


@message
class MemberResponse:
    """Whether one member has left."""

    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+")
    error_code: int = field(INT16, "3+")


@message
class LeaveGroupResponse:
    """Whether they have left."""

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16)
    members: list[MemberResponse] = field(Array(MemberResponse), "3+")


API = Api(LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, versions=(0, 5), flexible_from=4)
