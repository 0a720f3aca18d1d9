"""PendingCall: one call at a time, until its outcome was seen (P-I.2.5)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.pending_call import PendingCall
from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import IllegalStateError, KafkaError


def test_there_is_none_before_the_first() -> None:
    pending = PendingCall()
    assert pending.result is None
    assert pending.target is None
    pending.fail_if_any("begin_transaction")
    pending.fail(KafkaError("nobody hears it"))


def test_other_calls_wait_until_its_outcome_was_seen() -> None:
    pending = PendingCall()
    result = TransactionalRequestResult("commit_transaction")
    assert pending.begun(result, State.COMMITTING_TRANSACTION) is result
    for _ in range(2):  # without an outcome, and with one that nobody has seen
        assert pending.result is result
        assert pending.target is State.COMMITTING_TRANSACTION
        with pytest.raises(
            IllegalStateError,
            match=r"begin_transaction\(\) is not possible: commit_transaction\(\) has not ended",
        ):
            pending.fail_if_any("begin_transaction")
        result.done()
    result.acknowledge()
    assert pending.result is None
    assert pending.target is None
    pending.fail_if_any("begin_transaction")


def test_it_fails_for_who_waits() -> None:
    pending = PendingCall()
    result = pending.begun(TransactionalRequestResult("abort_transaction"), State.READY)
    pending.fail(KafkaError("closed"))
    with pytest.raises(KafkaError, match="closed"):
        result.acknowledge()
