"""FindCoordinator, key 10."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import FIND_COORDINATOR
from fastprod.protocol.schema import INT8, INT16, INT32, STRING, Array, field, message


@message
class FindCoordinatorRequest:
    """Groups (type 0) or transactional ids (type 1): one key, from version 4 on many."""

    key: str = field(STRING, "0-3")
    key_type: int = field(INT8, "1+")
    coordinator_keys: list[str] = field(Array(STRING), "4+")


@message
class Coordinator:
    """The node that looks after one key."""

    key: str = field(STRING, "4+")
    node_id: int = field(INT32, "4+")
    host: str = field(STRING, "4+")
    port: int = field(INT32, "4+")
    error_code: int = field(INT16, "4+")
    error_message: str | None = field(STRING, "4+", nullable="4+")


@message
class FindCoordinatorResponse:
    """The node or, from version 4 on, one for each key."""

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "0-3")
    error_message: str | None = field(STRING, "1-3", nullable="1-3")
    node_id: int = field(INT32, "0-3")
    host: str = field(STRING, "0-3")
    port: int = field(INT32, "0-3")
    coordinators: list[Coordinator] = field(Array(Coordinator), "4+")


API = Api(
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    versions=(0, 6),
    flexible_from=3,
)
