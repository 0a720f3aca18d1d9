"""What Python sees of `event_queue`; the queue itself is native (see event_queue.pxd)."""

from typing import final

_Numbers = tuple[int, int, int, int]

@final
class EventQueueForTest:
    """One queue of events. Threads: any."""

    def __init__(self) -> None: ...
    def push(
        self,
        kind: int,
        slot: int = -1,
        numbers: _Numbers = (0, 0, 0, 0),
        data: bytes | None = None,
    ) -> None:
        """Append an event; it is given its own copy of `data`."""
    def push_nothing(self) -> None:
        """Append the NULL that stands for memory that ran out."""
    def take(self, timeout_ms: float = 0.0) -> tuple[int, int, _Numbers, bytes | None] | None:
        """Take the oldest event; blocks without the GIL.

        Args:
            timeout_ms: how long to wait for one; 0: not at all.

        Returns:
            (kind, slot, numbers, data), or None: there was none, or the queue is closed and empty.
        """
    def close(self) -> None: ...
    @property
    def count(self) -> int:
        """Events in the queue."""
