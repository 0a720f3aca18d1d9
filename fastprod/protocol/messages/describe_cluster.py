"""DescribeCluster, key 60."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_CLUSTER
from fastprod.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, field, message

UNKNOWN_OPERATIONS = -(2**31)
"""Authorized operations that nobody asked for, or that nobody knows."""


@message
class DescribeClusterRequest:
    """Which nodes to tell of: brokers (1) or controllers (2)."""

    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, "1+", default=1)
    include_fenced_brokers: bool = field(BOOL, "2+")


@message
class DescribeClusterBroker:
    """A node of the cluster."""

    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)
    is_fenced: bool = field(BOOL, "2+")


@message
class DescribeClusterResponse:
    """The cluster."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    endpoint_type: int = field(INT8, "1+", default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = field(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(INT32, default=UNKNOWN_OPERATIONS)


API = Api(
    DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    DescribeClusterResponse,
    versions=(0, 2),
    flexible_from=0,
)
