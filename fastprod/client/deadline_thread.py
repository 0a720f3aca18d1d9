"""DeadlineThread: fails records at the deadlines of their own sends."""

from __future__ import annotations

import heapq
import itertools
import time
import weakref
from typing import Any, Final

from fastprod._core.delivery.future import RecordFuture
from fastprod.client.fork_lock import fork_lock
from fastprod.client.lazy_thread import LazyThread
from fastprod.client.log_thread import LOG_THREAD
from fastprod.client.system_threads import threads
from fastprod.log import Log

_log = Log("fastprod.deadline")

_FEW: Final = 1024
_LONGEST_WAIT_S: Final = 3600.0


class DeadlineThread:
    """Keeps the deadlines of a producer's records; starts with the first.

    Args:
        client_id: names the thread.
        missed: is told the error of each record that has failed, if it is still there.

    Threads: any.
    """

    def __init__(self, client_id: str, missed: weakref.WeakMethod[Any]) -> None:
        self._lazy = LazyThread(self._run, f"kafka-producer-deadlines | {client_id}")
        self._missed = missed
        # A signal handler may send within an `add`. It is entered, not the condition, whose
        # methods are Python: Ctrl-C in one of them would leave it locked.
        self._lock = fork_lock()
        self._changed = threads().Condition(self._lock)
        self._heap: list[tuple[int, int, int, RecordFuture]] = []
        self._numbers = itertools.count()
        self._most = _FEW
        self._is_over = False

    def add(self, future: RecordFuture, due_ns: int, limit_us: int) -> None:
        """Fail the record if it is not acknowledged by then.

        Args:
            future: the record's.
            due_ns: when, by time.monotonic_ns().
            limit_us: how long it has had by then, for the error.

        Raises:
            RuntimeError: the system gives no thread; the next call tries again.
        """
        with self._lock:
            if self._is_over:
                return
            self._lazy.start()
            entry = (due_ns, next(self._numbers), limit_us, future)
            heapq.heappush(self._heap, entry)
            if len(self._heap) > self._most:
                self._forget_done()
            if self._heap and self._heap[0] is entry:
                self._changed.notify()

    def _forget_done(self) -> None:
        """The acknowledged ones, when they may be most: so that each is looked at about twice."""
        self._heap = [entry for entry in self._heap if not entry[3].done()]
        heapq.heapify(self._heap)
        self._most = max(_FEW, 2 * len(self._heap))

    def end(self) -> None:
        """Keep no more deadlines: every record is done."""
        with self._lock:
            self._is_over = True
            self._heap.clear()
            self._changed.notify()

    def _run(self) -> None:
        LOG_THREAD.serve()
        while (due := self._next_due()) is not None:
            for limit_us, future in due:
                try:
                    error, missed = future._miss_deadline(limit_us), self._missed()
                    if error is not None and missed is not None:
                        missed(error)
                except BaseException:
                    _log.exception("a record could not be failed at its deadline")

    def _next_due(self) -> list[tuple[int, RecordFuture]] | None:
        """Wait for those whose time is over; None: no more will come."""
        with self._lock:
            while not self._is_over:
                now_ns = time.monotonic_ns()
                due = []
                while self._heap and (self._heap[0][0] <= now_ns or self._heap[0][3].done()):
                    _, _, limit_us, future = heapq.heappop(self._heap)
                    due.append((limit_us, future))
                if due:
                    return due
                left_s = (self._heap[0][0] - now_ns) / 1e9 if self._heap else _LONGEST_WAIT_S
                self._changed.wait(min(left_s, _LONGEST_WAIT_S))
        return None
