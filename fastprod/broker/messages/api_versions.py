"""ApiVersions, key 18."""

from __future__ import annotations

from fastprod.broker.schema import BOOL, INT16, INT32, INT64, STRING, Array, field, message


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
    """The levels of a feature that we know; below version 4 a minimum of 0 is left out (A7.4)."""

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
    """What we take; error 35 goes out as version 0 (A7.2)."""

    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(INT32, "1+")
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = field(INT64, "3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = field(BOOL, "3+", tag=3)
