"""DescribeClientQuotas, key 48."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_CLIENT_QUOTAS
from fastprod.protocol.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    field,
    message,
)


@message
class ComponentData:
    """Entities of a type: with a name (match type 0), the default (1), or any of them (2)."""

    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable="0+")


@message
class DescribeClientQuotasRequest:
    """Whose quotas to tell; strict: of entities that have no other part than these."""

    components: list[ComponentData] = field(Array(ComponentData))
    strict: bool = field(BOOL)


@message
class EntityData:
    """Part of whom a quota is for: a type such as "ip", and a name; null: the default."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


@message
class ValueData:
    """One quota."""

    key: str = field(STRING)
    value: float = field(FLOAT64)


@message
class EntryData:
    """The quotas of one entity."""

    entity: list[EntityData] = field(Array(EntityData))
    values: list[ValueData] = field(Array(ValueData))


@message
class DescribeClientQuotasResponse:
    """The quotas of every entity that was asked for; null: an error."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    entries: list[EntryData] | None = field(Array(EntryData), nullable="0+")


API = Api(
    DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    versions=(0, 1),
    flexible_from=1,
)
