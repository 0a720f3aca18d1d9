"""DescribeTransactionsHandler: waits until the transaction before has ended at the brokers."""

from __future__ import annotations

from typing import Final

from fastprod.client.transactions.request_handler import (
    ManagerView,
    Priority,
    TxnRequestHandler,
)
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import KafkaError
from fastprod.protocol.messages.transaction import describe_transactions
from fastprod.protocol.messages.transaction.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

_FIRST_BACKOFF_MS: Final = 1
_LONGEST_BACKOFF_MS: Final = 20
_BEING_ENDED: Final = frozenset({"PrepareCommit", "PrepareAbort"})


class DescribeTransactionsHandler(TxnRequestHandler):
    """Is the transaction before still being ended?

    EndTxn is answered before the markers are in the partitions. Until they are, brokers take no
    records of the next transaction, and try again after 20 ms
    (`add.partitions.to.txn.retry.backoff.ms`); this asks more often. Whatever else than a
    transaction that is being ended is the answer lets the records go: the brokers decide.

    Args:
        manager: whose producer it is for.
    """

    api = describe_transactions.API
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS

    def __init__(self, manager: ManagerView) -> None:
        super().__init__(manager, TransactionalRequestResult("DescribeTransactions"))
        self._backoff_ms = _FIRST_BACKOFF_MS

    @property
    def is_needed_to_abort(self) -> bool:
        """It is about records that have not left."""
        return False

    def message(self, version: int) -> DescribeTransactionsRequest:
        """P-I.7.8"""
        return DescribeTransactionsRequest(transactional_ids=[self.manager.transactional_id])

    def answered(self, answer: DescribeTransactionsResponse, version: int) -> None:
        """P-I.7.8"""
        codes = {each.error_code for each in answer.transaction_states}
        if any(each.transaction_state in _BEING_ENDED for each in answer.transaction_states):
            backoff_ms = self._backoff_ms
            self._backoff_ms = min(2 * backoff_ms, _LONGEST_BACKOFF_MS)
            self.retry(backoff_ms)
        else:
            self.manager.records_may_go(asks_again=codes == {0})

    def lost(self) -> None:
        """The connection ended before the answer."""
        self.manager.records_may_go(asks_again=True)

    def fatal_error(self, error: KafkaError) -> None:
        """Brokers may lack it; nobody needs it."""
        self.manager.records_may_go(asks_again=False)
