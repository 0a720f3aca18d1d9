"""The failure log: the first failure at once, later ones together, none unsaid."""

from __future__ import annotations

import logging

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.failure_log import PERIOD_MS, FailureLog


def failed(record_count: int, code: int = 10) -> ControlEvent:
    return ControlEvent(
        EventKind.ON_FAILED, topic="t", partition=3, code=code, item_count=record_count
    )


def counts(caplog: pytest.LogCaptureFixture) -> list[int]:
    said = [record.args for record in caplog.records if record.name == "fastprod.delivery"]
    return [args[0] for args in said if isinstance(args, tuple)]  # type: ignore[misc]


def test_the_first_failure_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "fastprod.delivery"):
        FailureLog().add(failed(7), 1_000)
    assert counts(caplog) == [7]
    assert "topic t, partition 3, with code 10" in caplog.text


def test_later_failures_are_said_together_when_the_period_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog()
    with caplog.at_level(logging.ERROR, "fastprod.delivery"):
        log.add(failed(1), 0)
        log.add(failed(2), 1)
        log.add(failed(3), 2)
        log.say_if_due(PERIOD_MS - 1)
        assert counts(caplog) == [1]
        log.say_if_due(PERIOD_MS)
    assert counts(caplog) == [1, 5]


def test_nothing_is_left_unsaid_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog()
    with caplog.at_level(logging.ERROR, "fastprod.delivery"):
        log.add(failed(1), 0)
        log.add(failed(9), 1)
        log.say_if_due(2, is_end=True)
        log.say_if_due(3, is_end=True)
    assert counts(caplog) == [1, 9]
