"""Purges: lets the I/O thread fail records, and knows when it has."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Protocol

from fastprod._core.delivery.result import ERR_PURGED
from fastprod._core.engine.control_queue import PURGE_IN_FLIGHT, PURGE_QUEUED
from fastprod.client.fork_lock import fork_lock
from fastprod.client.listeners import Listeners
from fastprod.client.system_threads import threads

LOOK_AGAIN_S = 0.05
"""A call looks so often whether its answer can still come."""


class PurgedEngine(Protocol):
    """What purges ask of the engine."""

    def abort_pending(self, code: int, token: int = 0, purged: int = 0) -> None: ...


class Purge:
    """One call of `purge`.

    Attributes:
        record_count: how many records have failed; None: that is not known yet.
        listeners: told when it is.
    """

    def __init__(self) -> None:
        self.record_count: int | None = None
        self.listeners = Listeners()


class Purges:
    """Calls of `purge` that wait for their answers.

    Args:
        engine: has the records.
        is_over: whether no answer will come any more.

    Threads: any; `answered` by the control thread.
    """

    def __init__(self, engine: PurgedEngine, is_over: Callable[[], bool]) -> None:
        self._engine = engine
        self._is_over = is_over
        # It is entered, not the condition, whose methods are Python: Ctrl-C would leave it locked.
        self._lock = fork_lock()
        self._changed = threads().Condition(self._lock)
        self._tokens = itertools.count(1)
        self._under_way: dict[int, Purge] = {}

    def begin(self, *, queued: bool, in_flight: bool) -> Purge:
        """Have the I/O thread fail what is queued, in flight, or both.  Never blocks."""
        purge = Purge()
        purged = (PURGE_QUEUED if queued else 0) | (PURGE_IN_FLIGHT if in_flight else 0)
        if purged == 0:
            purge.record_count = 0
            return purge
        token = next(self._tokens)
        self._under_way[token] = purge
        self._engine.abort_pending(ERR_PURGED, token, purged)
        return purge

    def is_pending(self, purge: Purge) -> bool:
        """Whether the answer is still to come: an engine that has ended gives none."""
        return purge.record_count is None and not self._is_over()

    def purge(self, *, queued: bool, in_flight: bool) -> int:
        """Fail what is queued, in flight, or both; returns how many records that were.

        Blocks: for a turn of the I/O thread; Ctrl-C gets through.
        """
        purge = self.begin(queued=queued, in_flight=in_flight)
        with self._lock:
            while self.is_pending(purge):
                self._changed.wait(LOOK_AGAIN_S)
        return purge.record_count or 0

    def answered(self, token: int, record_count: int) -> None:
        """It is done (ON_PURGED)."""
        purge = self._under_way.pop(token)
        with self._lock:
            purge.record_count = record_count
            self._changed.notify_all()
        purge.listeners.tell()
