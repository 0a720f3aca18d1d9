"""FailureLog: no silent loss. Records that failed are said in the log, a line every few seconds."""

from __future__ import annotations

import logging
from typing import Final

from fastprod.client.events import Event

_LOG = logging.getLogger("fastprod.delivery")

PERIOD_MS: Final = 5_000
"""Least time between two lines."""


class FailureLog:
    """Gathers failures and says them: the first at once, the others together.

    Threads: one.  Times are ms of the caller's clock.
    """

    def __init__(self) -> None:
        self._record_count = 0
        self._latest: Event | None = None
        self._said_at_ms: int | None = None

    def add(self, event: Event, now_ms: int) -> None:
        """Take a FAILED event."""
        self._record_count += event.b
        self._latest = event
        self.say_if_due(now_ms)

    def say_if_due(self, now_ms: int, *, is_end: bool = False) -> None:
        """Say what is unsaid, unless the last line is too fresh; at the end in any case."""
        event = self._latest
        is_fresh = self._said_at_ms is not None and now_ms - self._said_at_ms < PERIOD_MS
        if event is None or (is_fresh and not is_end):
            return
        _LOG.error(
            "%d record(s) failed; the latest for topic %s, partition %d, with code %d%s: their "
            "futures and callbacks have the error",
            self._record_count,
            event.topic,
            event.c,
            event.a,
            "" if event.data is None else f" ({event.data.decode('utf-8', 'replace')})",
        )
        self._record_count = 0
        self._latest = None
        self._said_at_ms = now_ms
