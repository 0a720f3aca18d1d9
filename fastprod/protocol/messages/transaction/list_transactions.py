"""ListTransactions, key 66 (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import LIST_TRANSACTIONS
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, Array, field, message


@message
class ListTransactionsRequest:
    """Which transactional ids are wanted; an empty list asks for all."""

    state_filters: list[str] = field(Array(STRING))
    producer_id_filters: list[int] = field(Array(INT64))
    duration_filter: int = field(INT64, "1+", default=-1)
    transactional_id_pattern: str | None = field(STRING, "2+", nullable="2+", default=None)


@message
class TransactionState:
    """One of them."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


@message
class ListTransactionsResponse:
    """Those that the node coordinates."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: list[str] = field(Array(STRING))
    transaction_states: list[TransactionState] = field(Array(TransactionState))


API = Api(
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
    versions=(0, 2),
    flexible_from=0,
)
