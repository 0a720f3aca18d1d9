"""AlterClientQuotas, key 49."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ALTER_CLIENT_QUOTAS
from fastprod.protocol.schema import BOOL, FLOAT64, INT16, INT32, STRING, Array, field, message


@message
class EntityData:
    """Part of whom a quota is for: a type such as "ip", and a name; null: the default."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


@message
class OpData:
    """A quota to set, or to remove."""

    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


@message
class EntryData:
    """Whose quotas to change, and how."""

    entity: list[EntityData] = field(Array(EntityData))
    ops: list[OpData] = field(Array(OpData))


@message
class AlterClientQuotasRequest:
    """Which quotas to change."""

    entries: list[EntryData] = field(Array(EntryData))
    validate_only: bool = field(BOOL)


@message
class EntryResult:
    """What became of one entry."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    entity: list[EntityData] = field(Array(EntityData))


@message
class AlterClientQuotasResponse:
    """What became of each entry."""

    throttle_time_ms: int = field(INT32)
    entries: list[EntryResult] = field(Array(EntryResult))


API = Api(
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    versions=(0, 1),
    flexible_from=1,
)
