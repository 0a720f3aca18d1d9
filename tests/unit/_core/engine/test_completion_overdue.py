"""A batch whose time ends with an answer that it would otherwise be sent again for (P-D.8.2)."""

from __future__ import annotations

import pytest

from fastprod._core.delivery.future import RecordFuture
from fastprod.errors import DeliveryTimeoutError, TopicAuthorizationError
from support.engine.sender_steps import Steps, outcome

TIMEOUT_MS = 3_000
NOT_LEADER = 6
REQUEST_TIMED_OUT = 7
NETWORK_EXCEPTION = 13
NOT_ENOUGH_REPLICAS = 19
TOPIC_AUTHORIZATION_FAILED = 29
OUT_OF_ORDER = 45


def overdue() -> tuple[Steps, RecordFuture, int]:
    """One batch under way whose time has just ended, before anybody looked at the clock."""
    sender = Steps(delivery_timeout_ms=TIMEOUT_MS, request_timeout_ms=100)
    future = sender.send()
    handle = sender.drain()
    sender.pass_time(TIMEOUT_MS)
    return sender, future, handle


@pytest.mark.parametrize(
    "code", [NOT_LEADER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER]
)
def test_it_expires_whatever_the_last_answer_was(code: int) -> None:
    sender, future, handle = overdue()
    sender.refuse(handle, code)
    error = outcome(future)
    assert isinstance(error, DeliveryTimeoutError)
    assert (error.elapsed_ms, error.attempts) == (TIMEOUT_MS, 1)
    assert sender.counters()["expired"] == 1
    assert sender.memory_is_back()


def test_an_answer_that_ends_it_anyway_is_its_error() -> None:
    sender, future, handle = overdue()
    sender.refuse(handle, TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(outcome(future), TopicAuthorizationError)
    assert sender.counters()["expired"] == 0
