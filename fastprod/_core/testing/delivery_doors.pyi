"""Doors to results, to the order of callbacks, and to forks as a server's in C."""

from collections.abc import Callable, Sequence
from typing import final

def sorted_for_test(indexes: Sequence[int]) -> tuple[list[int], int]:
    """Return in which order callbacks attached to these records run, and the comparisons made."""

def fork_as_server(function: Callable[[], object], keeps_gil: bool) -> int:
    """Fork as a server in C does, in a thread that runs no Python code; return the child's pid.

    The child calls the function, and ends. Without `keeps_gil` the GIL is free while it forks.
    """

@final
class IncompleteForTest:
    """A list of results with its completion queue; results are named by small integers.

    Each handle holds one reference, the batch's. Futures are numbers. Threads: any; `wait`,
    `wait_all` and `take_ready` block without the GIL.
    """

    def __init__(self) -> None: ...
    def new(self, count: int = 1) -> int:
        """Make a pending result of `count` records."""
    def new_child(self, parent: int, count: int = 1) -> int:
        """Make a pending result in front of its parent."""
    def new_apart(self, handle: int) -> int:
        """Make a pending result of a record whose deadline has passed; it is no batch's."""
    def abandon(self, handle: int) -> None:
        """Take a result that nobody looks at off the list."""
    def miss(self, handle: int, index: int = 0) -> int | None:
        """`result_miss`: the handle of the record's result, or None: its outcome is known."""
    @property
    def has_missed(self) -> bool: ...
    def release(self, handle: int) -> None:
        """Drop the handle and its reference."""
    def complete(self, handle: int) -> bool:
        """Publish the outcome; False: it was complete already."""
    def attach(self, handle: int, future: int, index: int) -> bool:
        """Attach a future with a callback; False: no longer pending."""
    def split(self, parent: int, children: Sequence[tuple[int, int]]) -> None:
        """Put (first record, child) in the place of a result."""
    def urge(self, handle: int) -> None:
        """Say that somebody waits."""
    def drive(self, handle: int) -> None:
        """Let a caller that waits for the result send it and read the answer."""
    def wait(self, handle: int, timeout_ms: float) -> bool:
        """Wait until the result is done or split; False: the time-out passed."""
    def take_ready(self, timeout_ms: float = 0.0) -> list[tuple[int, list[tuple[int, int]]]]:
        """Take the completion queue: (result, [(future, index)]), oldest first."""
    def delivered(self, handle: int) -> None:
        """Say that the callbacks of a taken result have run; drops the queue's reference."""
    def wait_all(self, number: int, timeout_ms: float) -> bool:
        """Wait until nothing numbered up to `number` is left; False: the time-out passed."""
    def resolve(self, handle: int, index: int) -> tuple[int, int]:
        """Return the result that has this record after splits, and its index there."""
    def record_count(self, up_to_number: int) -> int:
        """Return how many records of pending results there are."""
    def look(self, handle: int) -> dict[str, int]:
        """Return state, refs, waiters, urgent, number, error_code and futures (how many)."""
    def close(self) -> None: ...
    def signal_at(self, descriptor: int) -> None:
        """Write to this descriptor when the completion queue becomes non-empty; -1: nowhere."""
    def order(self) -> list[int]:
        """Return what is on the list, oldest first."""
    @property
    def batch_count(self) -> int: ...
    @property
    def last_number(self) -> int: ...
    @property
    def urges_heard(self) -> int:
        """How often the I/O thread would have been woken by `urge`."""
    @property
    def drives_begun(self) -> int:
        """How often `drive` came to the engine."""
