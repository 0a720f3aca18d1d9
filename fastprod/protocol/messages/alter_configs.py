"""AlterConfigs, key 33."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ALTER_CONFIGS
from fastprod.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, field, message


@message
class AlterableConfig:
    """A setting and its value."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


@message
class AlterConfigsResource:
    """A topic (type 2) or a broker (type 4, without a name: all), and all of its own settings."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@message
class AlterConfigsRequest:
    """Settings that take the place of those there are."""

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
class AlterConfigsResponse:
    """What became of each resource."""

    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))


API = Api(
    ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse, versions=(0, 2), flexible_from=2
)
