"""Produce, key 0."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import PRODUCE
from fastprod.protocol.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    field,
    message,
)


@message
class PartitionProduceData:
    """A partition and what to append to it."""

    index: int = field(INT32)
    records: memoryview | None = field(RECORDS, nullable="0+", default=None)


@message
class TopicProduceData:
    """A topic to produce to."""

    name: str = field(STRING, "0-12")
    topic_id: bytes = field(UUID, "13+")
    partition_data: list[PartitionProduceData] = field(Array(PartitionProduceData))


@message
class ProduceRequest:
    """Batches to append, by topic and partition."""

    transactional_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field(Array(TopicProduceData))


@message
class BatchIndexAndErrorMessage:
    """A record that made its batch be refused."""

    batch_index: int = field(INT32, "8+")
    batch_index_error_message: str | None = field(STRING, "8+", nullable="8+", default=None)


@message
class LeaderIdAndEpoch:
    """Who leads the partition, as far as the node knows."""

    leader_id: int = field(INT32, "10+", default=-1)
    leader_epoch: int = field(INT32, "10+", default=-1)


@message
class PartitionProduceResponse:
    """What became of one partition's batch."""

    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, "2+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(Array(BatchIndexAndErrorMessage), "8+")
    error_message: str | None = field(STRING, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "10+", tag=0)


@message
class TopicProduceResponse:
    """The partitions of one topic."""

    name: str = field(STRING, "0-12")
    topic_id: bytes = field(UUID, "13+")
    partition_responses: list[PartitionProduceResponse] = field(Array(PartitionProduceResponse))


@message
class NodeEndpoint:
    """Where a leader that was named is to be found."""

    node_id: int = field(INT32, "10+")
    host: str = field(STRING, "10+")
    port: int = field(INT32, "10+")
    rack: str | None = field(STRING, "10+", nullable="10+", default=None)


@message
class ProduceResponse:
    """What became of every batch."""

    responses: list[TopicProduceResponse] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32, "1+")
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), "10+", tag=0)


API = Api(PRODUCE, ProduceRequest, ProduceResponse, versions=(3, 13), flexible_from=9)
