"""DescribeConfigs, key 32."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_CONFIGS
from fastprod.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, field, message


@message
class DescribeConfigsResource:
    """A topic (type 2) or a broker (type 4), and the settings to tell; null: all of them."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field(Array(STRING), nullable="0+")


@message
class DescribeConfigsRequest:
    """Whose settings to tell."""

    resources: list[DescribeConfigsResource] = field(Array(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL, "1+")
    include_documentation: bool = field(BOOL, "3+")


@message
class DescribeConfigsSynonym:
    """A setting that this one would fall back on."""

    name: str = field(STRING, "1+")
    value: str | None = field(STRING, "1+", nullable="0+")
    source: int = field(INT8, "1+")


@message
class DescribeConfigsResourceResult:
    """One setting."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, "1+", default=-1)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym), "1+")
    config_type: int = field(INT8, "3+")
    documentation: str | None = field(STRING, "3+", nullable="0+")


@message
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult))


@message
class DescribeConfigsResponse:
    """The settings of every resource."""

    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field(Array(DescribeConfigsResult))


API = Api(
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    versions=(1, 4),
    flexible_from=4,
)
