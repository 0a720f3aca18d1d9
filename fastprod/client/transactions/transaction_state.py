"""TransactionState: where a transactional producer is, and where it may go from there (P-I.1)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class TransactionState(enum.Enum):
    """A state, and what it means in words for who called in the wrong order.

    Source: TransactionManager.State.
    """

    UNINITIALIZED = "init_transactions() comes first"
    INITIALIZING = "init_transactions() has not ended"
    READY = "no transaction is open: begin_transaction() comes first"
    IN_TRANSACTION = "a transaction is open: commit or abort it first"
    COMMITTING_TRANSACTION = "the transaction is being committed"
    ABORTING_TRANSACTION = "the transaction is being aborted"
    ABORTABLE_ERROR = "the transaction has failed: abort it"
    FATAL_ERROR = "the producer has failed: close it"

    @property
    def is_completing(self) -> bool:
        """Whether a transaction is being committed or aborted."""
        return self in _COMPLETING

    @property
    def is_ongoing(self) -> bool:
        """Whether there is a transaction that has not ended (P-I.1.4)."""
        return self in _COMPLETING or self in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE_ERROR,
        )

    @property
    def is_error(self) -> bool:
        """Whether it has an error."""
        return self in (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR)

    def may_become(self, target: TransactionState) -> bool:
        """Whether Kafka's producer goes from here to `target`."""
        return target is TransactionState.FATAL_ERROR or self in _SOURCES[target]


_COMPLETING: Final = frozenset(
    {TransactionState.COMMITTING_TRANSACTION, TransactionState.ABORTING_TRANSACTION}
)

_SOURCES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        TransactionState.UNINITIALIZED: frozenset(
            {TransactionState.READY, TransactionState.ABORTABLE_ERROR}
        ),
        TransactionState.INITIALIZING: frozenset({TransactionState.UNINITIALIZED}) | _COMPLETING,
        TransactionState.READY: frozenset({TransactionState.INITIALIZING}) | _COMPLETING,
        TransactionState.IN_TRANSACTION: frozenset({TransactionState.READY}),
        TransactionState.COMMITTING_TRANSACTION: frozenset({TransactionState.IN_TRANSACTION}),
        TransactionState.ABORTING_TRANSACTION: frozenset(
            {TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR}
        ),
        TransactionState.ABORTABLE_ERROR: frozenset(
            {
                TransactionState.INITIALIZING,
                TransactionState.IN_TRANSACTION,
                TransactionState.COMMITTING_TRANSACTION,
                TransactionState.ABORTABLE_ERROR,
            }
        ),
    }
)
