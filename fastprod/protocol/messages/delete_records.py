"""DeleteRecords, key 21."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DELETE_RECORDS
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, Array, field, message


@message
class DeleteRecordsPartition:
    """A partition, and the first offset that stays; -1: the high watermark."""

    partition_index: int = field(INT32)
    offset: int = field(INT64)


@message
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: str = field(STRING)
    partitions: list[DeleteRecordsPartition] = field(Array(DeleteRecordsPartition))


@message
class DeleteRecordsRequest:
    """Records to delete."""

    topics: list[DeleteRecordsTopic] = field(Array(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


@message
class DeleteRecordsPartitionResult:
    """Where the partition begins now; -1 on an error."""

    partition_index: int = field(INT32)
    low_watermark: int = field(INT64)
    error_code: int = field(INT16)


@message
class DeleteRecordsTopicResult:
    """Partitions of one topic."""

    name: str = field(STRING)
    partitions: list[DeleteRecordsPartitionResult] = field(Array(DeleteRecordsPartitionResult))


@message
class DeleteRecordsResponse:
    """What became of each partition."""

    throttle_time_ms: int = field(INT32)
    topics: list[DeleteRecordsTopicResult] = field(Array(DeleteRecordsTopicResult))


API = Api(
    DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse, versions=(0, 2), flexible_from=2
)
