"""item_error: Kafka's code for what an item raised."""

from __future__ import annotations

import errno

import pytest

from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.log.log_error import LogError
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    INVALID_CONFIG,
    KAFKA_STORAGE_ERROR,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_SERVER_ERROR,
)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (TopicError(INVALID_CONFIG, "why"), INVALID_CONFIG, "why"),
        (LogError(OFFSET_OUT_OF_RANGE, "why"), OFFSET_OUT_OF_RANGE, "why"),
        (OSError(errno.ENOSPC, "full"), KAFKA_STORAGE_ERROR, "[Errno 28] full"),
        (KeyError("x"), UNKNOWN_SERVER_ERROR, "KeyError: 'x'"),
    ],
)
def test_each_exception_has_its_code(
    error: Exception, code: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert item_error(error) == (code, text)
    assert bool(caplog.records) is (code == UNKNOWN_SERVER_ERROR)
