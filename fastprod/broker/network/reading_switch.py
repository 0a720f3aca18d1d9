"""ReadingSwitch: whether a Processor reads from its connections at all; for tests of clients."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from fastprod._core.io.server_selector import ServerSelector
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.mute_state import MuteState


class ReadingSwitch:
    """Whether a thread reads, as any other thread orders it.

    Attributes:
        is_on: whether to read now; it belongs to the reading thread.
    """

    def __init__(self) -> None:
        self.is_on = True
        self._orders: deque[tuple[bool, threading.Event]] = deque()

    def order(self, is_on: bool) -> threading.Event:
        """Order the switch for the reading thread's next turn; the result is set then. Any thread.

        The caller wakes the thread.
        """
        done = threading.Event()
        self._orders.append((is_on, done))
        return done

    def obey(self, selector: ServerSelector, connections: Iterable[Connection]) -> None:
        """Carry out the orders. For the reading thread."""
        while self._orders:
            self.is_on, done = self._orders.popleft()
            for connection in connections:
                if connection.mute_state is MuteState.NOT_MUTED:
                    selector.mute(connection.channel_id, not self.is_on)
            done.set()
