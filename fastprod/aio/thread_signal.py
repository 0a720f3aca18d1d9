"""ThreadSignal: what other threads tell an event loop, once for all tasks that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from types import TracebackType
from typing import Final, Self

from fastprod.client.listeners import Listeners

_LONGEST_S: Final = 3600.0


class ThreadSignal:
    """Wakes the tasks of the running event loop when listeners are told.

    It listens while somebody is within its with block; then a task that looks at the state and
    waits misses no change.

    Args:
        listeners: to listen among.

    Attributes:
        listeners: the same.

    Threads: that of the event loop in which it was made.
    """

    def __init__(self, listeners: Listeners) -> None:
        self.listeners = listeners
        self._loop = weakref.ref(asyncio.get_running_loop())
        self._waiters: dict[asyncio.Future[None], None] = {}  # first come, first woken
        self._users = 0

    def __enter__(self) -> Self:
        self._users += 1
        if self._users == 1:
            self.listeners.add(self._tell)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._users -= 1
        if self._users == 0:
            self.listeners.remove(self._tell)

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next change, so long at most."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(min(timeout_s, _LONGEST_S), _end, waiter)
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            timer.cancel()
            del self._waiters[waiter]

    def _tell(self) -> None:
        loop = self._loop()
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for waiter in self._waiters:
            _end(waiter)


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
