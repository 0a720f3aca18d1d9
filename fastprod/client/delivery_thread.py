"""DeliveryThread: runs a producer's delivery callbacks, and never holds up the network."""

from __future__ import annotations

from typing import Protocol

from fastprod.client.lazy_thread import LazyThread
from fastprod.client.system_threads import threads
from fastprod.deadline import time_left_s
from fastprod.log import own_thread


class Deliveries(Protocol):
    """What the thread asks of the engine."""

    @property
    def deliveries_closed(self) -> bool: ...
    def run_deliveries(self, timeout_s: float) -> object: ...


class DeliveryThread:
    """Runs the callbacks of a producer; starts with the first one.

    Args:
        engine: has the callbacks that are due.
        client_id: names the thread.

    Threads: any.
    """

    def __init__(self, engine: Deliveries, client_id: str) -> None:
        self._engine = engine
        self._lazy = LazyThread(lambda: _deliver(engine), f"kafka-producer-delivery | {client_id}")

    @property
    def is_current(self) -> bool:
        """Whether this very thread runs the callbacks."""
        return threads().current_thread() is self._lazy.thread

    def is_alive(self) -> bool:
        """Whether it has started and not ended."""
        thread = self._lazy.thread
        return thread is not None and thread.is_alive()

    def start(self) -> None:
        """Start it, if that was not done; again after an interrupted start."""
        self._lazy.start()

    def end(self, deadline_s: float | None) -> None:
        """Wait until all callbacks have run; the engine takes no more of them.

        Blocks: until they have returned, at most to the deadline, in monotonic seconds; not if one
        of them calls it.
        """
        thread = self._lazy.thread
        if thread is None or not thread.is_alive():
            self._engine.run_deliveries(0)
        elif not self.is_current:
            thread.join(None if deadline_s is None else time_left_s(deadline_s))


def _deliver(engine: Deliveries) -> None:
    own_thread()
    while not engine.deliveries_closed:
        engine.run_deliveries(1.0)
    engine.run_deliveries(0)
