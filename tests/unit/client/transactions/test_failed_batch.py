"""What it means for a transaction that records of it have failed (P-F.4.7, P-I.6.1)."""

from __future__ import annotations

import pytest

from fastprod._core.delivery.result import ERR_DEADLINE, ERR_EXPIRED, ERR_NO_CODEC
from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.transactions.failed_batch import error_of_batch, error_of_transaction
from fastprod.errors import TransactionAbortableError

RETRIABLE = (3, 6, 7, 13, 19)
INVALID_TXN_STATE = 48
INVALID_PRODUCER_EPOCH = 47


def failed(code: int, data: bytes | None = None) -> ControlEvent:
    return ControlEvent(
        EventKind.ON_FAILED, topic="t", partition=2, code=code, item_count=3, data=data
    )


@pytest.mark.parametrize("code", [*RETRIABLE, INVALID_TXN_STATE])
def test_what_might_have_passed_is_to_be_aborted(code: int) -> None:
    """P-F.4.7, P-L.128"""
    cause = error_of_batch(failed(code))
    error = error_of_transaction(cause)
    assert isinstance(error, TransactionAbortableError)
    assert error.__cause__ is cause
    assert cause.code == code


def test_records_that_expired_are_to_be_aborted() -> None:
    """P-I.8.3"""
    error = error_of_batch(failed(ERR_EXPIRED, b"no leader"))
    assert isinstance(error, TransactionAbortableError)
    assert error_of_transaction(error) is error
    for word in ("3 record(s)", "'t'", "partition 2", "delivery_timeout_ms", "no leader"):
        assert word in str(error)


def test_other_errors_are_the_transactions_own() -> None:
    for code in (INVALID_PRODUCER_EPOCH, ERR_NO_CODEC):
        error = error_of_batch(failed(code))
        assert error_of_transaction(error) is error
        assert "'t'" in str(error)


def test_what_is_not_known_is_not_told() -> None:
    """Of a record that missed its own deadline, and of what there was no memory to tell of."""
    late = error_of_batch(ControlEvent(0, code=ERR_DEADLINE))
    assert isinstance(late, TransactionAbortableError)
    assert "by the deadline of its send" in str(late)
    other = error_of_batch(ControlEvent(0, code=ERR_NO_CODEC))
    for error in (late, other):
        assert "None" not in str(error)
        assert "partition" not in str(error)
