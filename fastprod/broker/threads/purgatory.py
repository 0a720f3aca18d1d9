"""Delayed operations: what waits for records, for a deadline, or for the end of a fault (B-A5.6).

A parked operation holds no thread. It is completed exactly once, by whoever comes first: the thread
that makes it ready, the timer thread at its deadline, or the one that shuts the broker down.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Hashable, Iterable

from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.joining import await_end, try_start

_PURGE_THRESHOLD_COUNT = 1000
_NS_PER_MS = 1_000_000


class DelayedOperation:
    """One parked operation. Override `try_complete`, `on_complete` and, if it differs, `on_expiry`.

    `try_complete` and `on_complete` run on any thread, without a lock of the purgatory held.

    Args:
        delay_ms: so long after it was parked it expires; None: it waits without a deadline.
    """

    __slots__ = ("_once", "delay_ms", "keys")

    def __init__(self, delay_ms: float | None) -> None:
        self.delay_ms = delay_ms
        self.keys: tuple[Hashable, ...] = ()
        # A lock taken once and never given back is the cheapest test-and-set there is.
        self._once = threading.Lock()

    @property
    def is_completed(self) -> bool:
        """Whether somebody has completed it, or is about to."""
        return self._once.locked()

    def claim(self) -> bool:
        """Whether the caller is the one who may complete it."""
        return self._once.acquire(blocking=False)

    def force_complete(self) -> bool:
        """Complete it now unless somebody else did; returns whether it was us."""
        if not self.claim():
            return False
        self.on_complete()
        return True

    def expire(self) -> bool:
        """Complete it because its deadline has come, unless it was completed."""
        if not self.claim():
            return False
        self.on_expiry()
        return True

    def try_complete(self, key: Hashable | None = None) -> bool:
        """Complete it if it is ready; returns whether this call did.

        Args:
            key: what changed; None: look at everything.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do what it waited for. Called exactly once, or `on_expiry` is."""
        raise NotImplementedError

    def on_expiry(self) -> None:
        """Its time is over before it was ready."""
        self.on_complete()

    def on_withdrawn(self) -> None:
        """Nobody waits for it any more. Called exactly once, or one of the other two is.

        The timer may know it for a long time still: it should keep nothing alive.
        """


class DelayedAction(DelayedOperation):
    """Calls `action` after `delay_ms`, or earlier when the purgatory shuts down."""

    __slots__ = ("_action",)

    def __init__(self, delay_ms: float | None, action: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._action = action

    def try_complete(self, key: Hashable | None = None) -> bool:
        """Never ready: it waits for its deadline only."""
        return False

    def on_complete(self) -> None:
        """Call the action."""
        self._action()


class DelayedRetry(DelayedAction):
    """The same, but an end of the purgatory forgets it."""

    __slots__ = ()

    def on_complete(self) -> None:
        """Nobody tries again."""

    def on_expiry(self) -> None:
        """Call the action."""
        self._action()


class DelayedOperationPurgatory:
    """Parked operations by key, and one timer thread, started by the first deadline.

    Any thread. A key is anything hashable: a `Partition`, a group's name.

    Args:
        name: of the timer thread.
        clock: what deadlines are measured by.
        on_error: called with what an operation raises; whoever woke it must not get that.
    """

    def __init__(self, name: str, clock: Clock, on_error: Callable[[BaseException], None]) -> None:
        self._on_error = on_error
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._lock = threading.Lock()
        self._timer = _Timer(name, clock, self._expire)
        self._is_closed = False

    @property
    def parked_count(self) -> int:
        """How many operations are watched by at least one key."""
        with self._lock:
            return len({each for watched in self._watchers.values() for each in watched})

    @property
    def has_timer_thread(self) -> bool:
        """Whether a deadline has started the timer thread."""
        return self._timer.is_running

    def complete_or_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete it at once if it is ready, else park it; returns whether it is completed.

        1. It is not ready. 2. Another thread makes it ready and finds nobody parked. 3. It is
        parked. Therefore a second look follows the parking.
        """
        if operation.try_complete():
            return True
        operation.keys = tuple(keys)
        with self._lock:
            closed = self._is_closed
            if not closed:
                for key in operation.keys:
                    self._watchers.setdefault(key, {})[operation] = None
        if closed:
            operation.force_complete()
            return True
        if operation.try_complete():
            self._forget(operation)
            return True
        if operation.is_completed:
            # Somebody else was faster than the second look, maybe before the parking was whole.
            self._forget(operation)
            return True
        if operation.delay_ms is not None and not self._timer.add(operation):
            operation.force_complete()
            self._forget(operation)
            return True
        return False

    def run_later(self, delay_ms: float, action: Callable[[], None]) -> DelayedOperation:
        """Call `action` on the timer thread after `delay_ms`, or when the purgatory closes."""
        operation = DelayedAction(delay_ms, action)
        self.complete_or_watch(operation, (operation,))
        return operation

    def retry_later(self, delay_ms: float, action: Callable[[], None]) -> bool:
        """Call `action` on the timer thread after `delay_ms`, but not when the purgatory closes.

        Returns:
            Whether that is planned: it is not if the purgatory is closed, or has no thread.
        """
        operation = DelayedRetry(delay_ms, action)
        return not self.complete_or_watch(operation, (operation,))

    def check_and_complete(self, key: Hashable) -> int:
        """Something happened to `key`: complete what is ready now; returns how many were."""
        if key not in self._watchers:
            return 0
        with self._lock:
            waiting = list(self._watchers.get(key, ()))
        completed = 0
        for operation in waiting:
            if self._try(operation, key):
                completed += 1
                self._forget(operation)
        return completed

    def withdraw(self, operation: DelayedOperation) -> bool:
        """Take it out without completing it; whether nobody had completed it before."""
        claimed = operation.claim()
        if claimed:
            operation.on_withdrawn()
        self._forget(operation)
        return claimed

    def withdraw_all(self, key: Hashable) -> int:
        """Take out whatever is parked at `key`: nobody waits for it any more; how many."""
        if key not in self._watchers:
            return 0
        with self._lock:
            waiting = list(self._watchers.get(key, ()))
        return sum(self.withdraw(operation) for operation in waiting)

    def close(self) -> None:
        """Complete everything that is parked and end the timer thread. May be repeated."""
        with self._lock:
            self._is_closed = True
            parked = list(dict.fromkeys(each for w in self._watchers.values() for each in w))
            self._watchers.clear()
        for operation in parked:
            self._guarded(operation.force_complete)
        self._timer.close()

    def _try(self, operation: DelayedOperation, key: Hashable) -> bool:
        try:
            # One that is completed but still parked is on its way out on another thread.
            return not operation.is_completed and operation.try_complete(key)
        except Exception as error:
            self._on_error(error)
            return True

    def _guarded(self, complete: Callable[[], bool]) -> None:
        try:
            complete()
        except Exception as error:
            self._on_error(error)

    def _expire(self, operation: DelayedOperation) -> None:
        self._guarded(operation.expire)
        self._forget(operation)

    def _forget(self, operation: DelayedOperation) -> None:
        with self._lock:
            for key in operation.keys:
                watched = self._watchers.get(key)
                if watched is None:
                    continue
                watched.pop(operation, None)
                if not watched:
                    del self._watchers[key]
            # The timer may know it for a long time still.
            operation.keys = ()
        self._timer.discard_one()


class _Timer:
    """A thread that sleeps exactly until the next deadline, and for ever while there is none."""

    def __init__(self, name: str, clock: Clock, expire: Callable[[DelayedOperation], None]) -> None:
        self._name = name
        self._clock = clock
        self._expire = expire
        self._heap: list[tuple[int, int, DelayedOperation]] = []
        self._order = itertools.count()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._done_count = 0

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def add(self, operation: DelayedOperation) -> bool:
        """Let it expire at its deadline; False: closed, or no thread could be started."""
        deadline_ns = self._clock.monotonic_ns() + round((operation.delay_ms or 0) * _NS_PER_MS)
        with self._condition:
            if self._is_closed:
                return False
            self._thread = self._thread or try_start(self._name, self._run)
            if self._thread is None:
                return False
            heapq.heappush(self._heap, (deadline_ns, next(self._order), operation))
            if self._heap[0][2] is operation:
                self._condition.notify()
        return True

    def discard_one(self) -> None:
        """Count an operation that was completed early; after many, the heap is cleaned up."""
        self._done_count += 1
        if self._done_count < _PURGE_THRESHOLD_COUNT:
            return
        with self._condition:
            self._done_count = 0
            self._heap = [entry for entry in self._heap if not entry[2].is_completed]
            heapq.heapify(self._heap)

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._heap.clear()
            self._condition.notify()
            thread = self._thread
        await_end(thread)

    def _run(self) -> None:
        while True:
            with self._condition:
                due = self._next_due()
            if due is None:
                return
            for operation in due:
                self._expire(operation)

    def _next_due(self) -> list[DelayedOperation] | None:
        """Wait until something is due; None: closed. The condition's lock is held."""
        while not self._is_closed:
            while self._heap and self._heap[0][2].is_completed:
                heapq.heappop(self._heap)
            now_ns = self._clock.monotonic_ns()
            due = []
            while self._heap and self._heap[0][0] <= now_ns:
                operation = heapq.heappop(self._heap)[2]
                if not operation.is_completed:
                    due.append(operation)
            if due:
                return due
            self._clock.wait(self._condition, self._heap[0][0] if self._heap else None)
        return None
