"""What an EndTxn may do, by state, epoch and protocol (TransactionCoordinator.endTransaction)."""

from __future__ import annotations

from typing import Final, NamedTuple

from fastprod.broker.coordinator.transaction.transaction_metadata import (
    PREPARED,
    TV_2,
    TransactionState,
    TxnTransitMetadata,
    is_exhausted,
)
from fastprod.broker.log.record_batch import Producer
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
)

_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class EndPlan(NamedTuple):
    """What becomes of an EndTxn.

    Attributes:
        code: NONE, or Kafka's for why not.
        ends: False: it was done before, and is only said once more.
    """

    code: int
    ends: bool = False


_END: Final = EndPlan(NONE, ends=True)
_DONE: Final = EndPlan(NONE)
_INVALID: Final = EndPlan(INVALID_TXN_STATE)


def plan_end(
    now: TxnTransitMetadata, producer: Producer, is_commit: bool, client_version: int
) -> EndPlan:
    """What becomes of an EndTxn.

    Args:
        now: the transaction.
        producer: who asks.
        is_commit: False: to abort it.
        client_version: TV_0 or TV_2.
    """
    if client_version >= TV_2:
        return _plan_with_bump(now, producer, is_commit)
    if now.producer_id != producer.id:
        return EndPlan(INVALID_PRODUCER_ID_MAPPING)
    if now.producer_epoch != producer.epoch:
        return EndPlan(PRODUCER_FENCED)
    if now.state is TransactionState.ONGOING:
        return _END
    if _is_same(now.state, is_commit):
        return EndPlan(CONCURRENT_TRANSACTIONS) if now.state in PREPARED else _DONE
    return _INVALID


def _is_same(state: TransactionState, is_commit: bool) -> bool:
    """Whether a transaction has ended, or will end, in this way."""
    if is_commit:
        return state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    return state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


def _plan_with_bump(now: TxnTransitMetadata, producer: Producer, is_commit: bool) -> EndPlan:
    """With KIP-890: the epoch tells a repeated request from the next one."""
    has_rotated = (
        now.previous_producer_id == producer.id
        and is_exhausted(producer.epoch)
        and now.producer_epoch == 0
    )
    is_repeated = has_rotated or now.producer_epoch == producer.epoch + 1
    if now.producer_id != producer.id and not has_rotated:
        return EndPlan(INVALID_PRODUCER_ID_MAPPING)
    is_current = now.producer_epoch == producer.epoch
    if now.state in PREPARED:
        return EndPlan(CONCURRENT_TRANSACTIONS if is_repeated else PRODUCER_FENCED)
    if not is_current and not (is_repeated and now.state in _COMPLETE):
        return EndPlan(PRODUCER_FENCED)
    if is_repeated:
        return _DONE if _is_same(now.state, is_commit) else _INVALID
    # Nothing may be in it: then it can only be aborted.
    return _END if now.state is TransactionState.ONGOING or not is_commit else _INVALID
