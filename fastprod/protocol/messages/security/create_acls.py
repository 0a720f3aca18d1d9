"""CreateAcls, key 30."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import CREATE_ACLS
from fastprod.protocol.schema import INT8, INT16, INT32, STRING, Array, field, message

LITERAL_PATTERN = 3


@message
class AclCreation:
    """An ACL to make."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, "1+", default=LITERAL_PATTERN)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class CreateAclsRequest:
    """Which ACLs to make."""

    creations: list[AclCreation] = field(Array(AclCreation))


@message
class AclCreationResult:
    """What became of one of them."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


@message
class CreateAclsResponse:
    """What became of each, in the order of the request."""

    throttle_time_ms: int = field(INT32)
    results: list[AclCreationResult] = field(Array(AclCreationResult))


API = Api(
    CREATE_ACLS,
    CreateAclsRequest,
    CreateAclsResponse,
    versions=(1, 3),
    flexible_from=2,
)
