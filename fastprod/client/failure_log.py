"""FailureLog: reports failed records in the log, one line every few seconds."""

from __future__ import annotations

from typing import Final

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.log import Log

_LOG = Log("fastprod.delivery")

PERIOD_MS: Final = 5_000
"""Least time between two lines."""


class FailureLog:
    """Collects failures and logs them: the first at once, the others together.

    Threads: one.  Times are ms of the caller's clock.
    """

    def __init__(self) -> None:
        self._record_count = 0
        self._latest: ControlEvent | None = None
        self._said_at_ms: int | None = None

    def add(self, event: ControlEvent, now_ms: int) -> None:
        """Take an ON_FAILED event."""
        self._record_count += event.item_count
        self._latest = event
        self.say_if_due(now_ms)

    def say_if_due(self, now_ms: int, *, is_end: bool = False) -> None:
        """Log what is not logged yet, unless the last line is recent; at the end in any case."""
        event = self._latest
        is_fresh = self._said_at_ms is not None and now_ms - self._said_at_ms < PERIOD_MS
        if event is None or (is_fresh and not is_end):
            return
        _LOG.error(
            "%d record(s) failed; the latest for topic %s, partition %d, with code %d%s: their "
            "futures and callbacks have the error",
            self._record_count,
            event.topic,
            event.partition,
            event.code,
            "" if event.data is None else f" ({event.data.decode('utf-8', 'replace')})",
        )
        self._record_count = 0
        self._latest = None
        self._said_at_ms = now_ms
