"""ApiVersions, key 18."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import API_VERSIONS
from fastprod.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Array, field, message


@message
class ApiVersionsRequest:
    """The first word of a client: who it is."""

    client_software_name: str = field(STRING, "3+")
    client_software_version: str = field(STRING, "3+")


@message
class ApiVersion:
    """The versions that we take of one API."""

    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@message
class SupportedFeatureKey:
    """The levels of a feature that we know; below version 4 a minimum of 0 is left out (B-A7.4)."""

    name: str = field(STRING, "3+")
    min_version: int = field(INT16, "3+")
    max_version: int = field(INT16, "3+")


@message
class FinalizedFeatureKey:
    """The level of a feature that the cluster has agreed on."""

    name: str = field(STRING, "3+")
    max_version_level: int = field(INT16, "3+")
    min_version_level: int = field(INT16, "3+")


@message
class ApiVersionsResponse:
    """What we take; error 35 goes out as version 0 (B-A7.2)."""

    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(INT32, "1+")
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = field(INT64, "3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = field(BOOL, "3+", tag=3)


API = Api(API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, versions=(0, 4), flexible_from=3)
