"""SyncGroup, key 14."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import SYNC_GROUP
from fastprod.protocol.schema import BYTES, INT16, INT32, STRING, Array, field, message


@message
class SyncGroupRequestAssignment:
    """What one member is to do."""

    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@message
class SyncGroupRequest:
    """A member asks what to do; the leader says it of all."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(STRING, "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment))


@message
class SyncGroupResponse:
    """What the member is to do."""

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(STRING, "5+", nullable="5+", default=None)
    assignment: bytes = field(BYTES)


API = Api(SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, versions=(0, 5), flexible_from=4)
