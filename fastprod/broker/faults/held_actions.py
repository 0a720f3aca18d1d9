"""HeldActions: actions that faults hold back until their time, or until a reset."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastprod.broker.threads.purgatory import DelayedOperation, DelayedOperationPurgatory


class HeldActions:
    """The actions held back between two resets. Any thread.

    Args:
        purgatory: the timer; None: nothing is held back.
    """

    def __init__(self, purgatory: DelayedOperationPurgatory | None = None) -> None:
        self._purgatory = purgatory
        self._lock = threading.Lock()
        self._waiting: list[tuple[DelayedOperation, Callable[[], None]]] = []
        self._is_released = False

    @property
    def is_released(self) -> bool:
        """Whether nothing is held back any more."""
        return self._is_released

    def hold(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Call `action` after `delay_ms` on the timer's thread; at once if nothing is to wait."""
        purgatory = self._purgatory
        if delay_ms <= 0 or purgatory is None or self._is_released:
            action()
            return
        operation = purgatory.run_later(delay_ms, action)
        with self._lock:
            is_late = self._is_released
            if not is_late:
                self._waiting = [each for each in self._waiting if not each[0].is_completed]
                self._waiting.append((operation, action))
        if is_late and purgatory.withdraw(operation):
            action()

    def release(self) -> None:
        """Hold nothing back from now on: what waits goes on at once, on this thread."""
        with self._lock:
            self._is_released = True
            waiting, self._waiting = self._waiting, []
        for operation, action in waiting:
            if self._purgatory is not None and self._purgatory.withdraw(operation):
                action()
