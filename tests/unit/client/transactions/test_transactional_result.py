"""TransactionalRequestResult: one outcome, for whoever waits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import KafkaError

BOUND_S = 30.0


def test_a_result_is_waited_for_and_acknowledged() -> None:
    """P-I.2.5"""
    result = TransactionalRequestResult("commit_transaction")
    assert not result.wait(0)
    result.done()
    assert result.wait(0)
    assert not result.is_acked
    result.acknowledge()
    assert result.is_acked


def test_each_caller_gets_an_error_of_his_own() -> None:
    """P-I.1.5"""
    error = KafkaError("broken", code=42)
    error.__cause__ = KafkaError("why")
    result = TransactionalRequestResult("commit_transaction")
    result.fail(error)
    for _ in range(2):
        with pytest.raises(KafkaError, match="broken") as caught:
            result.acknowledge()
        assert caught.value is not error
        assert (caught.value.code, str(caught.value.__cause__)) == (42, "why")


def test_the_first_outcome_counts() -> None:
    result = TransactionalRequestResult("commit_transaction")
    result.done()
    result.fail(KafkaError("late"))
    assert result.is_completed
    result.acknowledge()


def test_what_is_settled_cannot_fail() -> None:
    """P-I.6.8"""
    result = TransactionalRequestResult("commit_transaction")
    result.is_settled = True
    assert not result.wait(0)
    result.fail(KafkaError("no epoch for the next one"))
    assert result.wait(0)
    result.acknowledge()


def test_all_who_wait_are_woken() -> None:
    result = TransactionalRequestResult("commit_transaction")
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(result.wait, BOUND_S) for _ in range(3)]
        result.done()
        assert all(each.result(BOUND_S) for each in waiting)
