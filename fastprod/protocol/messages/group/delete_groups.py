"""DeleteGroups, key 42."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DELETE_GROUPS
from fastprod.protocol.schema import INT16, INT32, STRING, Array, field, message


@message
class DeleteGroupsRequest:
    """Groups to delete, with their offsets."""

    groups_names: list[str] = field(Array(STRING))


@message
class DeletableGroupResult:
    """What became of one group."""

    group_id: str = field(STRING)
    error_code: int = field(INT16)


@message
class DeleteGroupsResponse:
    """What became of every group."""

    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field(Array(DeletableGroupResult))


API = Api(
    DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse, versions=(0, 2), flexible_from=2
)
