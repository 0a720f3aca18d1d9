"""Turns an exception into the error of one topic or partition, not of the whole request."""

from __future__ import annotations

import logging
from typing import NamedTuple

from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.log.log_error import LogError
from fastprod.error_codes import KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR

_log = logging.getLogger(__name__)


class ItemError(NamedTuple):
    """Kafka's code, and a text for the client."""

    code: int
    text: str


def item_error(error: Exception) -> ItemError:
    """Return the error of a topic, a partition or a resource; a bug of the broker is logged."""
    if isinstance(error, TopicError):
        return ItemError(error.code, error.message)
    if isinstance(error, LogError):
        return ItemError(error.error_code, error.message)
    if isinstance(error, OSError):
        return ItemError(KAFKA_STORAGE_ERROR, str(error))
    _log.error("one item of a request has failed", exc_info=error)
    return ItemError(UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
