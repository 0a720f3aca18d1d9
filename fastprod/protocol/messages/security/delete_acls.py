"""DeleteAcls, key 31."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DELETE_ACLS
from fastprod.protocol.schema import INT8, INT16, INT32, STRING, Array, field, message

LITERAL_PATTERN = 3


@message
class DeleteAclsFilter:
    """Which ACLs to delete; null: any."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, "1+", default=LITERAL_PATTERN)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class DeleteAclsRequest:
    """Filters: what any of them matches is deleted."""

    filters: list[DeleteAclsFilter] = field(Array(DeleteAclsFilter))


@message
class DeleteAclsMatchingAcl:
    """An ACL that a filter matched."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, "1+", default=LITERAL_PATTERN)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class DeleteAclsFilterResult:
    """What one filter matched."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field(Array(DeleteAclsMatchingAcl))


@message
class DeleteAclsResponse:
    """What each filter matched, in the order of the request."""

    throttle_time_ms: int = field(INT32)
    filter_results: list[DeleteAclsFilterResult] = field(Array(DeleteAclsFilterResult))


API = Api(
    DELETE_ACLS,
    DeleteAclsRequest,
    DeleteAclsResponse,
    versions=(1, 3),
    flexible_from=2,
)
