"""Purges: lets the I/O thread fail records, and waits until it has."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Protocol

from fastprod._core.delivery.result import ERR_PURGED
from fastprod._core.engine.control_queue import PURGE_IN_FLIGHT, PURGE_QUEUED

_SLICE_S = 0.05


class PurgedEngine(Protocol):
    """What purges ask of the engine."""

    def abort_pending(self, code: int, token: int = 0, purged: int = 0) -> None: ...


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
        self._changed = threading.Condition()
        self._tokens = itertools.count(1)
        self._counts: dict[int, int] = {}

    def purge(self, *, queued: bool, in_flight: bool) -> int:
        """Fail what is queued, in flight, or both; returns how many records that were.

        Blocks: for a turn of the I/O thread; Ctrl-C gets through.
        """
        purged = (PURGE_QUEUED if queued else 0) | (PURGE_IN_FLIGHT if in_flight else 0)
        if purged == 0:
            return 0
        token = next(self._tokens)
        self._engine.abort_pending(ERR_PURGED, token, purged)
        with self._changed:
            while token not in self._counts and not self._is_over():
                self._changed.wait(_SLICE_S)
            return self._counts.pop(token, 0)

    def answered(self, token: int, record_count: int) -> None:
        """It is done (ON_PURGED)."""
        with self._changed:
            self._counts[token] = record_count
            self._changed.notify_all()
