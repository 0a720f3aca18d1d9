"""DescribeTransactions, key 65 (KIP-664)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_TRANSACTIONS
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, Array, field, message


@message
class DescribeTransactionsRequest:
    """Transactional ids that somebody wants to know about."""

    transactional_ids: list[str] = field(Array(STRING))


@message
class TopicData:
    """The partitions of one topic that belong to the transaction."""

    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


@message
class TransactionState:
    """What one of them is doing."""

    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: int = field(INT64)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    topics: list[TopicData] = field(Array(TopicData))


@message
class DescribeTransactionsResponse:
    """What they are doing."""

    throttle_time_ms: int = field(INT32)
    transaction_states: list[TransactionState] = field(Array(TransactionState))


API = Api(
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    versions=(0, 0),
    flexible_from=0,
)
