"""DescribeAcls, key 29."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_ACLS
from fastprod.protocol.schema import INT8, INT16, INT32, STRING, Array, field, message

LITERAL_PATTERN = 3


@message
class DescribeAclsRequest:
    """Which ACLs to tell; null: any."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable="0+")
    pattern_type_filter: int = field(INT8, "1+", default=LITERAL_PATTERN)
    principal_filter: str | None = field(STRING, nullable="0+")
    host_filter: str | None = field(STRING, nullable="0+")
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class AclDescription:
    """Who may do what, or may not, from where."""

    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class DescribeAclsResource:
    """The ACLs of one pattern of resources."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, "1+", default=LITERAL_PATTERN)
    acls: list[AclDescription] = field(Array(AclDescription))


@message
class DescribeAclsResponse:
    """The ACLs that were asked for."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resources: list[DescribeAclsResource] = field(Array(DescribeAclsResource))


API = Api(
    DESCRIBE_ACLS,
    DescribeAclsRequest,
    DescribeAclsResponse,
    versions=(1, 3),
    flexible_from=2,
)
