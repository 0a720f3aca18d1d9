"""IncrementalAlterConfigs, key 44."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import INCREMENTAL_ALTER_CONFIGS
from fastprod.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, field, message


@message
class AlterableConfig:
    """A setting, and what to do: set (0), delete (1), append (2) or subtract (3) the value."""

    name: str = field(STRING)
    config_operation: int = field(INT8)
    value: str | None = field(STRING, nullable="0+")


@message
class AlterConfigsResource:
    """A topic (type 2) or a broker (type 4, without a name: all), and its settings to change."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@message
class IncrementalAlterConfigsRequest:
    """Which settings to change."""

    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


@message
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


@message
class IncrementalAlterConfigsResponse:
    """What became of each resource."""

    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))


API = Api(
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    versions=(0, 1),
    flexible_from=1,
)
