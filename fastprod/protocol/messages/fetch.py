"""Fetch, key 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import FETCH
from fastprod.protocol.schema import (
    INT8,
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

if TYPE_CHECKING:
    from typing_extensions import Buffer


@message
class ReplicaState:
    """Who fetches, if it is a broker."""

    replica_id: int = field(INT32, "15+", default=-1)
    replica_epoch: int = field(INT64, "15+", default=-1)


@message
class FetchPartition:
    """A partition and where to read it from."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, "9+", default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, "12+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, "17+", tag=0)
    high_watermark: int = field(INT64, "18+", default=2**63 - 1, tag=1)


@message
class FetchTopic:
    """A topic to fetch."""

    topic: str = field(STRING, "0-12")
    topic_id: bytes = field(UUID, "13+")
    partitions: list[FetchPartition] = field(Array(FetchPartition))


@message
class ForgottenTopic:
    """Partitions to take out of a fetch session."""

    topic: str = field(STRING, "7-12")
    topic_id: bytes = field(UUID, "13+")
    partitions: list[int] = field(Array(INT32), "7+")


@message
class FetchRequest:
    """Partitions to read, and how long to wait for how many bytes."""

    cluster_id: str | None = field(STRING, "12+", nullable="12+", default=None, tag=0)
    replica_id: int = field(INT32, "0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, "3+", default=0x7FFFFFFF)
    isolation_level: int = field(INT8, "4+")
    session_id: int = field(INT32, "7+")
    session_epoch: int = field(INT32, "7+", default=-1)
    topics: list[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(Array(ForgottenTopic), "7+")
    rack_id: str = field(STRING, "11+")


@message
class EpochEndOffset:
    """Where the reader's log and ours part."""

    epoch: int = field(INT32, "12+", default=-1)
    end_offset: int = field(INT64, "12+", default=-1)


@message
class LeaderIdAndEpoch:
    """Who leads the partition, as far as the node knows."""

    leader_id: int = field(INT32, "12+", default=-1)
    leader_epoch: int = field(INT32, "12+", default=-1)


@message
class SnapshotId:
    """A snapshot to fetch in place of the log."""

    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


@message
class AbortedTransaction:
    """A transaction whose records a read_committed reader skips."""

    producer_id: int = field(INT64, "4+")
    first_offset: int = field(INT64, "4+")


@message
class PartitionData:
    """What was read from one partition.

    Kafka's table lets records be null; ours does not: no records are an empty byte string (B-B1.2).
    """

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, "4+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        Array(AbortedTransaction), "4+", nullable="4+"
    )
    preferred_read_replica: int = field(INT32, "11+", default=-1)
    records: Buffer | list[Buffer] = field(RECORDS)


@message
class FetchableTopicResponse:
    """The partitions of one topic."""

    topic: str = field(STRING, "0-12")
    topic_id: bytes = field(UUID, "13+")
    partitions: list[PartitionData] = field(Array(PartitionData))


@message
class NodeEndpoint:
    """Where a leader that was named is to be found."""

    node_id: int = field(INT32, "16+")
    host: str = field(STRING, "16+")
    port: int = field(INT32, "16+")
    rack: str | None = field(STRING, "16+", nullable="16+", default=None)


@message
class FetchResponse:
    """What was read."""

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "7+")
    session_id: int = field(INT32, "7+")
    responses: list[FetchableTopicResponse] = field(Array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), "16+", tag=0)


API = Api(FETCH, FetchRequest, FetchResponse, versions=(4, 18), flexible_from=12)
