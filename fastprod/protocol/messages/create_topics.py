"""CreateTopics, key 19."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import CREATE_TOPICS
from fastprod.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Array, field, message


@message
class CreatableReplicaAssignment:
    """The nodes that a partition is to be on."""

    partition_index: int = field(INT32)
    broker_ids: list[int] = field(Array(INT32))


@message
class CreatableTopicConfig:
    """A setting of the new topic."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable="0+")


@message
class CreatableTopic:
    """A topic to make; -1 partitions or replicas: as the broker sees fit."""

    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: list[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(Array(CreatableTopicConfig))


@message
class CreateTopicsRequest:
    """Topics to make, or only to check."""

    topics: list[CreatableTopic] = field(Array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL, "1+")


@message
class CreatableTopicConfigs:
    """A setting that the new topic has."""

    name: str = field(STRING, "5+")
    value: str | None = field(STRING, "5+", nullable="5+")
    read_only: bool = field(BOOL, "5+")
    config_source: int = field(INT8, "5+", default=-1)
    is_sensitive: bool = field(BOOL, "5+")


@message
class CreatableTopicResult:
    """What became of one topic."""

    name: str = field(STRING)
    topic_id: bytes = field(UUID, "7+")
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "1+", nullable="0+")
    topic_config_error_code: int = field(INT16, "5+", tag=0)
    num_partitions: int = field(INT32, "5+", default=-1)
    replication_factor: int = field(INT16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field(
        Array(CreatableTopicConfigs), "5+", nullable="5+"
    )


@message
class CreateTopicsResponse:
    """What became of every topic."""

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[CreatableTopicResult] = field(Array(CreatableTopicResult))


API = Api(
    CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, versions=(2, 7), flexible_from=5
)
