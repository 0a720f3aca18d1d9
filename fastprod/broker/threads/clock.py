"""Clock: the computer's time, or a test's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000


class Clock(Protocol):
    """The time, and waiting until a time.  Any thread may use it."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment; never goes back."""

    def time_ms(self) -> int:
        """Milliseconds since 1970: what goes into records."""

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        """Wait on `condition`, which the caller holds, for a notification or for the deadline.

        May return early: look again at what you wait for.

        Args:
            condition: as for `threading.Condition.wait`.
            deadline_ns: a `monotonic_ns`; None: whoever ends the wait notifies.
        """

    def seconds_until(self, deadline_ns: int) -> float | None:
        """How long to sleep in the kernel for a `monotonic_ns`; 0 if it has passed.

        None: until woken, since only `subscribe`'s callback tells that time has moved.
        """

    def subscribe(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Have `moved` called when time leaps; returns a function that ends that.

        For a thread that sleeps elsewhere than in `wait`.  Called without a lock, by the thread
        that moves the time.
        """


class SystemClock:
    """The computer's clock."""

    # The function itself: each request asks half a dozen times.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def time_ms(self) -> int:
        return time.time_ns() // _NS_PER_MS

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        condition.wait(None if deadline_ns is None else self.seconds_until(deadline_ns))

    def seconds_until(self, deadline_ns: int) -> float:
        return max(0, deadline_ns - time.monotonic_ns()) / _NS_PER_S

    def subscribe(self, moved: Callable[[], None]) -> Callable[[], None]:
        return _nothing


def _nothing() -> None:
    """End of a subscription to a clock that never leaps: nothing to do."""


class _Waiter:
    __slots__ = ("condition", "deadline_ns")

    def __init__(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        self.condition = condition
        self.deadline_ns = deadline_ns


class FakeClock:
    """A clock that stands still until somebody moves it.

    Args:
        time_ms: what `time_ms` says at first, milliseconds since 1970.
    """

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = time_ms
        self._now_ns = 0
        self._changed = threading.Condition()
        self._waiters: list[_Waiter] = []
        self._subscribers: list[Callable[[], None]] = []

    def monotonic_ns(self) -> int:
        return self._now_ns

    def time_ms(self) -> int:
        return self._start_ms + self._now_ns // _NS_PER_MS

    def advance(self, ms: float) -> None:
        """Move the time on by `ms` >= 0 and release everybody whose deadline that reaches.

        They may still be on their way when it returns.
        """
        if ms < 0:
            raise ValueError(f"time moves on, never back: got advance({ms} ms)")
        with self._changed:
            self._now_ns += round(ms * _NS_PER_MS)
            due = [each for each in self._waiters if self._is_due(each.deadline_ns)]
            for waiter in due:
                self._waiters.remove(waiter)
            subscribers = list(self._subscribers)
        # Outside the lock: a waiter holds its condition when it asks for the clock's lock.
        for waiter in due:
            with waiter.condition:
                waiter.condition.notify_all()
        for moved in subscribers:
            moved()

    def _is_due(self, deadline_ns: int | None) -> bool:
        return deadline_ns is not None and deadline_ns <= self._now_ns

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        waiter = _Waiter(condition, deadline_ns)
        with self._changed:
            if self._is_due(deadline_ns):
                return
            self._waiters.append(waiter)
            self._changed.notify_all()
        try:
            condition.wait()
        finally:
            with self._changed:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def await_waiters(self, count: int, timeout_s: float = 30.0) -> None:
        """Block until at least `count` threads are in `wait`.

        Raises:
            TimeoutError: there were fewer for `timeout_s` of real time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._waiters) >= count, timeout_s):
                found = len(self._waiters)
                raise TimeoutError(f"{found} of {count} threads wait after {timeout_s} s")

    def seconds_until(self, deadline_ns: int) -> float | None:
        return 0.0 if self._is_due(deadline_ns) else None

    def subscribe(self, moved: Callable[[], None]) -> Callable[[], None]:
        with self._changed:
            self._subscribers.append(moved)

        def unsubscribe() -> None:
            with self._changed:
                if moved in self._subscribers:
                    self._subscribers.remove(moved)

        return unsubscribe
