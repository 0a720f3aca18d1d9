"""DescribeGroups, key 15."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_GROUPS
from fastprod.protocol.messages.metadata import UNKNOWN_OPERATIONS
from fastprod.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Array, field, message


@message
class DescribeGroupsRequest:
    """Which groups to tell of."""

    groups: list[str] = field(Array(STRING))
    include_authorized_operations: bool = field(BOOL, "3+")


@message
class DescribedGroupMember:
    """One member."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, "4+", nullable="4+", default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


@message
class DescribedGroup:
    """One group, or why there is nothing to tell of it."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "6+", nullable="6+", default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(INT32, "3+", default=UNKNOWN_OPERATIONS)


@message
class DescribeGroupsResponse:
    """The groups that were asked for."""

    throttle_time_ms: int = field(INT32, "1+")
    groups: list[DescribedGroup] = field(Array(DescribedGroup))


API = Api(
    DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    versions=(0, 6),
    flexible_from=5,
)
