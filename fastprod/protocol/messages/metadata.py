"""Metadata, key 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import METADATA
from fastprod.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    field,
    message,
    tuple_message,
)

UNKNOWN_OPERATIONS = -(2**31)
"""Authorized operations that nobody asked for, or that nobody knows."""


@message
class MetadataRequestTopic:
    """A topic to describe: by name, or from version 12 on by id with no name."""

    topic_id: bytes = field(UUID, "10+")
    name: str | None = field(STRING, nullable="10+")


@message
class MetadataRequest:
    """Topics to describe; null, and an empty list in version 0, are all of them (B-B1.2)."""

    topics: list[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(BOOL, "4+", default=True)
    include_cluster_authorized_operations: bool = field(BOOL, "8-10")
    include_topic_authorized_operations: bool = field(BOOL, "8+")


@message
class MetadataResponseBroker:
    """A node of the cluster."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, "1+", nullable="1+", default=None)


@tuple_message
class MetadataResponsePartition(NamedTuple):
    """Who leads a partition, and who follows. A tuple: there are thousands of them."""

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, "7+", default=-1)
    replica_nodes: Sequence[int] = field(Array(INT32, as_tuple=True))
    isr_nodes: Sequence[int] = field(Array(INT32, as_tuple=True))
    offline_replicas: Sequence[int] = field(Array(INT32, as_tuple=True), "5+")


@message
class MetadataResponseTopic:
    """A topic and its partitions, or why there is nothing to say of it."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable="12+")
    topic_id: bytes = field(UUID, "10+")
    is_internal: bool = field(BOOL, "1+")
    partitions: list[MetadataResponsePartition] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, "8+", default=UNKNOWN_OPERATIONS)


@message
class MetadataResponse:
    """The cluster and the topics asked for."""

    throttle_time_ms: int = field(INT32, "3+")
    brokers: list[MetadataResponseBroker] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, "2+", nullable="2+", default=None)
    controller_id: int = field(INT32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = field(Array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(INT32, "8-10", default=UNKNOWN_OPERATIONS)
    error_code: int = field(INT16, "13+")


API = Api(METADATA, MetadataRequest, MetadataResponse, versions=(0, 13), flexible_from=9)
