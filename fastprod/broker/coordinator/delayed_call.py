"""DelayedCall: what a coordinator does later, unless it is withdrawn or the broker stops."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from fastprod.broker.threads.purgatory import DelayedOperation


class DelayedCall(DelayedOperation):
    """Calls something at its deadline, on the purgatory's thread and without a lock.

    Args:
        delay_ms: how long it waits.
        action: called then; not if it is withdrawn before, or the purgatory closes.
    """

    __slots__ = ("_action",)

    def __init__(self, delay_ms: float, action: Callable[[], object]) -> None:
        super().__init__(delay_ms)
        self._action: Callable[[], object] | None = action

    def try_complete(self, key: Hashable | None = None) -> bool:
        """Never: it waits for its deadline."""
        return False

    def on_complete(self) -> None:
        """The purgatory closes."""
        self._action = None

    def on_withdrawn(self) -> None:
        """Let go of what it would have called: the timer keeps this object."""
        self._action = None

    def on_expiry(self) -> None:
        """Call it."""
        action, self._action = self._action, None
        if action is not None:
            action()
