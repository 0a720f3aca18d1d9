"""A transactional id at one moment, and the next one (B-E4)."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TV_0,
    TV_2,
    TransactionState,
    TxnTransitMetadata,
    is_exhausted,
)
from fastprod.broker.log.record_batch import Producer

T0, T1 = ("t", 0), ("t", 1)
IDLE = TxnTransitMetadata(9, 3, 1000, 5)


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    first = IDLE.with_partitions(frozenset({T0}), TV_0, 10)
    assert (first.state, first.start_ms, first.update_ms) == (TransactionState.ONGOING, 10, 10)
    second = first.with_partitions(frozenset({T1}), TV_0, 20)
    assert second.partitions == {T0, T1}
    assert (second.start_ms, second.update_ms) == (10, 20)
    decided = second.ending(True, TV_0, -1, 30)
    assert decided.state is TransactionState.PREPARE_COMMIT
    assert decided.partitions == {T0, T1}
    assert decided.next_producer == second.producer
    done = decided.completed(40)
    assert (done.state, done.partitions) == (TransactionState.COMPLETE_COMMIT, frozenset())
    assert (done.producer, done.start_ms, done.update_ms) == (Producer(9, 3), 10, 40)
    assert done.with_partitions(frozenset({T0}), TV_0, 50).start_ms == 50


def test_with_kip_890_the_end_has_the_next_epoch() -> None:
    decided = IDLE.with_partitions(frozenset({T0}), TV_2, 10).ending(False, TV_2, -1, 30)
    assert (decided.producer, decided.last_producer_epoch) == (Producer(9, 4), 3)
    assert decided.completed(40).state is TransactionState.COMPLETE_ABORT
    rotating = IDLE._replace(producer_epoch=32766).ending(False, TV_2, 77, 30)
    # Of the markers; no producer is ever given it.
    assert rotating.producer_epoch == 32767
    assert rotating.next_producer == rotating.completed(40).producer == Producer(77, 0)
    assert rotating.completed(40).previous_producer_id == 9


@pytest.mark.parametrize(("epoch", "is_last"), [(32765, False), (32766, True), (32767, True)])
def test_the_last_epoch_is_for_fencing(epoch: int, is_last: bool) -> None:
    assert is_exhausted(epoch) is is_last
