"""Heartbeat, key 12."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import HEARTBEAT
from fastprod.protocol.schema import INT16, INT32, STRING, field, message


@message
class HeartbeatRequest:
    """A member lives."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)


@message
class HeartbeatResponse:
    """Whether it is still a member, and whether it has to join again."""

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16)


API = Api(HEARTBEAT, HeartbeatRequest, HeartbeatResponse, versions=(0, 4), flexible_from=4)
