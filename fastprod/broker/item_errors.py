"""What one item of a request is told of an exception: the others are answered as ever."""

from __future__ import annotations

import logging
from typing import NamedTuple

from fastprod.broker import codes
from fastprod.broker.log.log_error import LogError
from fastprod.broker.topics import TopicError

_log = logging.getLogger(__name__)


class ItemError(NamedTuple):
    """Kafka's code, and a text for the client."""

    code: int
    text: str


def item_error(error: Exception) -> ItemError:
    """Say what a topic, a partition or a resource answers; a mistake of ours is logged, too."""
    if isinstance(error, TopicError):
        return ItemError(error.code, error.message)
    if isinstance(error, LogError):
        return ItemError(error.error_code, error.message)
    if isinstance(error, OSError):
        return ItemError(codes.KAFKA_STORAGE_ERROR, str(error))
    _log.error("one item of a request has failed", exc_info=error)
    return ItemError(codes.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
