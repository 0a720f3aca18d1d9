"""ListGroups, key 16."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import LIST_GROUPS
from fastprod.protocol.schema import INT16, INT32, STRING, Array, field, message


@message
class ListGroupsRequest:
    """Which groups; no states, or no types: those of every one."""

    states_filter: list[str] = field(Array(STRING), "4+")
    types_filter: list[str] = field(Array(STRING), "5+")


@message
class ListedGroup:
    """One group that the node coordinates."""

    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, "4+")
    group_type: str = field(STRING, "5+")


@message
class ListGroupsResponse:
    """The groups that the node coordinates."""

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(Array(ListedGroup))


API = Api(LIST_GROUPS, ListGroupsRequest, ListGroupsResponse, versions=(0, 5), flexible_from=3)
