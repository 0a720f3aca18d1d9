"""OverflowWorker: one thread for requests that would keep the network's thread for too long."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from fastprod.broker.threads.joining import await_end, try_start

_log = logging.getLogger(__name__)


class OverflowWorker:
    """Runs actions one after the other. The thread begins with the first and sleeps in between.

    Any thread.

    Args:
        name: of the thread.
        capacity_count: how many actions may wait.
    """

    def __init__(self, name: str, capacity_count: int = 500) -> None:
        self._name = name
        self._capacity_count = capacity_count
        self._waiting: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_running = False

    def put(self, action: Callable[[], None]) -> bool:
        """Have `action` called soon; False: it will not be, there is no room or no thread."""
        with self._changed:
            if self._is_closed or len(self._waiting) >= self._capacity_count:
                return False
            self._thread = self._thread or try_start(self._name, self._run)
            if self._thread is None:
                return False
            self._waiting.append(action)
            self._changed.notify()
        return True

    @property
    def is_closed(self) -> bool:
        """Whether an action that takes long should give up."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and not self._is_running

    def close(self) -> None:
        """Forget what waits, and wait for the end of what runs. May be repeated.

        Raises:
            TimeoutError: it runs on for longer than 10 s.
        """
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify()
            thread = self._thread
        await_end(thread)

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except Exception:
                _log.exception("%s: an action has failed", self._name)

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._is_running = False
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            # In this order, under the lock: nobody sees it idle between two actions.
            self._is_running = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None
