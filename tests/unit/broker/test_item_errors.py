"""item_error: Kafka's code for what an item raised."""

from __future__ import annotations

import errno

import pytest

from fastprod.broker import codes
from fastprod.broker.item_errors import item_error
from fastprod.broker.log.log_error import LogError
from fastprod.broker.topics import TopicError


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (TopicError(codes.INVALID_CONFIG, "why"), codes.INVALID_CONFIG, "why"),
        (LogError(codes.OFFSET_OUT_OF_RANGE, "why"), codes.OFFSET_OUT_OF_RANGE, "why"),
        (OSError(errno.ENOSPC, "full"), codes.KAFKA_STORAGE_ERROR, "[Errno 28] full"),
        (KeyError("x"), codes.UNKNOWN_SERVER_ERROR, "KeyError: 'x'"),
    ],
)
def test_each_exception_has_its_code(
    error: Exception, code: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B9"""
    assert item_error(error) == (code, text)
    assert bool(caplog.records) is (code == codes.UNKNOWN_SERVER_ERROR)
