class TimersForTest:
    """Timers by number, all in one heap. Not set at first."""

    count: int

    def __init__(self, count: int) -> None: ...
    def set(self, number: int, due_ns: int) -> None: ...
    def clear(self, number: int) -> None: ...
    def next_ns(self) -> int | None:
        """When the first is due; None: none is set."""

    def pop_due(self, now_ns: int) -> int | None:
        """The number of the first one, which is then cleared, if it is due."""
