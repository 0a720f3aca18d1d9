"""What an EndTxn may do: the tables of Kafka's coordinator (B-E4, KIP-890)."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.transaction.end_transaction import plan_end
from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TV_0,
    TV_2,
    TransactionState,
    TxnTransitMetadata,
)
from fastprod.broker.log.record_batch import Producer

ENDS = "ends"
OK, FENCED, CONCURRENT, INVALID = 0, 90, 51, 48
COMMIT, ABORT = True, False


def outcome(state: str, epoch: int, is_commit: bool, version: int) -> object:
    """A producer of that epoch, while the transaction has epoch 5."""
    now = TxnTransitMetadata(9, 5, 1000, 0, state=TransactionState(state))
    plan = plan_end(now, Producer(9, epoch), is_commit, version)
    return ENDS if plan.ends else plan.code


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        ("Empty", INVALID, INVALID),
        ("Ongoing", ENDS, ENDS),
        ("PrepareCommit", CONCURRENT, INVALID),
        ("PrepareAbort", INVALID, CONCURRENT),
        ("CompleteCommit", OK, INVALID),
        ("CompleteAbort", INVALID, OK),
    ],
)
def test_before_kip_890(state: str, commit: object, abort: object) -> None:
    assert outcome(state, 5, COMMIT, TV_0) == commit
    assert outcome(state, 5, ABORT, TV_0) == abort
    for epoch in (4, 6):
        assert outcome(state, epoch, COMMIT, TV_0) == FENCED


@pytest.mark.parametrize(
    ("state", "repeated_commit", "repeated_abort", "commit", "abort"),
    [
        ("Empty", FENCED, FENCED, INVALID, ENDS),
        ("Ongoing", FENCED, FENCED, ENDS, ENDS),
        ("PrepareCommit", CONCURRENT, CONCURRENT, FENCED, FENCED),
        ("PrepareAbort", CONCURRENT, CONCURRENT, FENCED, FENCED),
        ("CompleteCommit", OK, INVALID, INVALID, ENDS),
        ("CompleteAbort", INVALID, OK, INVALID, ENDS),
    ],
)
def test_with_kip_890(
    state: str, repeated_commit: object, repeated_abort: object, commit: object, abort: object
) -> None:
    assert outcome(state, 4, COMMIT, TV_2) == repeated_commit
    assert outcome(state, 4, ABORT, TV_2) == repeated_abort
    assert outcome(state, 5, COMMIT, TV_2) == commit
    assert outcome(state, 5, ABORT, TV_2) == abort
    for epoch in (3, 6):
        assert outcome(state, epoch, COMMIT, TV_2) == FENCED


@pytest.mark.parametrize("version", [TV_0, TV_2])
def test_another_producer_id_is_not_the_one(version: int) -> None:
    now = TxnTransitMetadata(9, 5, 1000, 0, state=TransactionState.ONGOING)
    assert plan_end(now, Producer(8, 5), COMMIT, version).code == 49
