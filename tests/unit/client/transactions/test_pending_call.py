"""PendingCall: one call at a time, until its outcome was seen (P-I.2.5)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.pending_call import PendingCall
from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import AuthenticationError, IllegalStateError, KafkaError


def test_there_is_none_before_the_first() -> None:
    pending = PendingCall(lambda: True)
    assert pending.result is None
    assert pending.target is None
    pending.fail_if_any("begin_transaction")
    pending.fail(KafkaError("nobody hears it"))


def test_other_calls_wait_until_its_outcome_was_seen() -> None:
    pending = PendingCall(lambda: True)
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
    pending = PendingCall(lambda: True)
    result = pending.begun(TransactionalRequestResult("abort_transaction"), State.READY)
    pending.fail(KafkaError("closed"))
    with pytest.raises(KafkaError, match="closed"):
        result.acknowledge()


def test_a_refusal_that_nobody_has_seen_is_none_once_it_stands_no_more() -> None:
    refused = [True]
    pending = PendingCall(lambda: refused[0])
    for target in (State.INITIALIZING, State.COMMITTING_TRANSACTION):
        refused[0] = True
        result = pending.begun(TransactionalRequestResult("a call"), target)
        result.fail(AuthenticationError("refused"))
        assert pending.result is result
        refused[0] = False
        is_first = target is State.INITIALIZING
        assert pending.target is (None if is_first else target)
        refused[0] = True
        assert pending.result is (None if is_first else result)
