"""AddPartitionsToTxn, key 24; from version 4 on it is a broker that asks."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ADD_PARTITIONS_TO_TXN
from fastprod.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Array, field, message


@message
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


@message
class AddPartitionsToTxnTransaction:
    """One transaction, and the partitions to add to it, or only to look for in it."""

    transactional_id: str = field(STRING, "4+")
    producer_id: int = field(INT64, "4+")
    producer_epoch: int = field(INT16, "4+")
    verify_only: bool = field(BOOL, "4+")
    topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), "4+")


@message
class AddPartitionsToTxnRequest:
    """Partitions that belong to a transaction from now on."""

    transactions: list[AddPartitionsToTxnTransaction] = field(
        Array(AddPartitionsToTxnTransaction), "4+"
    )
    v3_and_below_transactional_id: str = field(STRING, "0-3")
    v3_and_below_producer_id: int = field(INT64, "0-3")
    v3_and_below_producer_epoch: int = field(INT16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        Array(AddPartitionsToTxnTopic), "0-3"
    )


@message
class AddPartitionsToTxnPartitionResult:
    """Whether one partition does."""

    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


@message
class AddPartitionsToTxnTopicResult:
    """The partitions of one topic."""

    name: str = field(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        Array(AddPartitionsToTxnPartitionResult)
    )


@message
class AddPartitionsToTxnResult:
    """The topics of one transaction."""

    transactional_id: str = field(STRING, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), "4+"
    )


@message
class AddPartitionsToTxnResponse:
    """Whether the partitions do."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        Array(AddPartitionsToTxnResult), "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), "0-3"
    )


API = Api(
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    versions=(0, 5),
    flexible_from=3,
)
