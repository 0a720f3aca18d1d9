"""WriteTxnMarkers, key 27: transactions end in partitions; a coordinator or an admin says so.

Version 2 has the version of each transaction (KIP-1228).
"""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import WRITE_TXN_MARKERS
from fastprod.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Array, field, message


@message
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


@message
class WritableTxnMarker:
    """The end of one transaction."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: list[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)
    transaction_version: int = field(INT8, "2+")


@message
class WriteTxnMarkersRequest:
    """Transactions that have ended."""

    markers: list[WritableTxnMarker] = field(Array(WritableTxnMarker))


@message
class WritableTxnMarkerPartitionResult:
    """Whether the marker of one partition was written."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class WritableTxnMarkerTopicResult:
    """The partitions of one topic."""

    name: str = field(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = field(
        Array(WritableTxnMarkerPartitionResult)
    )


@message
class WritableTxnMarkerResult:
    """The topics of one producer."""

    producer_id: int = field(INT64)
    topics: list[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult))


@message
class WriteTxnMarkersResponse:
    """Whether the markers were written."""

    markers: list[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult))


API = Api(
    WRITE_TXN_MARKERS,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    versions=(1, 2),
    flexible_from=1,
)
