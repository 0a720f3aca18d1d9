"""What Python sees of `in_flight`; the requests themselves are native (see in_flight.pxd)."""

from typing import final

def next_correlation_id_for_test(correlation_id: int) -> int:
    """Return the id after this one (G.2.3)."""

def forbid_growth_for_test(after: int) -> None:
    """Let memory for a request's batches run out after so many allocations; -1: no longer."""

@final
class InFlightForTest:
    """The in-flight requests of one connection, named by integers. Threads: one at a time."""

    def __init__(self) -> None: ...
    def add(self, name: int, is_produce: bool = True, is_written: bool = False) -> None:
        """Add the newest request."""
    def pop(self) -> int | None:
        """Remove the oldest; None: there is none."""
    def pop_newest(self) -> int | None:
        """Remove the newest; None: there is none."""
    def write_newest(self) -> None:
        """Say that every byte of the newest is in the socket; there must be one."""
    def can_send(self, most: int) -> bool:
        """Tell whether another may be sent when `most` may be in flight (G.2.1)."""
    @property
    def counts(self) -> tuple[int, int]:
        """All requests, and those that are Produce."""
