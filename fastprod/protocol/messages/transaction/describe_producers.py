"""DescribeProducers, key 61 (KIP-664)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_PRODUCERS
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, Array, field, message


@message
class TopicRequest:
    """Partitions of one topic."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


@message
class DescribeProducersRequest:
    """Partitions whose producers are wanted."""

    topics: list[TopicRequest] = field(Array(TopicRequest))


@message
class ProducerState:
    """What a partition knows of a producer; -1 stands for nothing."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: int = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: int = field(INT64, default=-1)


@message
class PartitionResponse:
    """The producers of one partition."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    active_producers: list[ProducerState] = field(Array(ProducerState))


@message
class TopicResponse:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[PartitionResponse] = field(Array(PartitionResponse))


@message
class DescribeProducersResponse:
    """The producers."""

    throttle_time_ms: int = field(INT32)
    topics: list[TopicResponse] = field(Array(TopicResponse))


API = Api(
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    versions=(0, 0),
    flexible_from=0,
)
