"""DeferringLock: what its holder wants done without it is done as soon as it is released."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

_log = logging.getLogger(__name__)


class DeferringLock:
    """A lock for `with`. Any thread; not re-entrant.

    Who changes a group answers clients and wakes what waits for it. Both may take other locks, or
    run what a test has planned, and are done after the release, by the same thread, in order.
    """

    __slots__ = ("_deferred", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deferred: list[Callable[[], object]] = []

    def defer(self, action: Callable[[], object]) -> None:
        """Have `action` called after the release; the caller holds the lock.

        What it raises is logged.
        """
        self._deferred.append(action)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Also an empty list: into that one the next holder would put something before we look.
        deferred, self._deferred = self._deferred, []
        self._lock.release()
        for action in deferred:
            try:
                action()
            except Exception:
                _log.exception("what was put off until a lock was free has failed")
