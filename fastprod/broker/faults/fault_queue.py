"""FaultQueue: planned faults in their order, and which of them applies to a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from fastprod.broker.faults.target import Aim, Place, RequestTarget, check_count

E = TypeVar("E")


class PlannedFault(Generic[E]):
    """A planned fault.

    Args:
        effect: what happens to its requests.
        aim: which requests it applies to.
        n: how many of them; None: all, until a reset.
        after: how many of them pass unharmed first.

    Raises:
        ValueError: a count is negative, or n is 0.
    """

    __slots__ = ("_skip_count", "aim", "effect", "left_count")

    def __init__(self, effect: E, aim: Aim, n: int | None, after: int) -> None:
        self.effect = effect
        self.aim = aim
        self.left_count = None if n is None else check_count("n", n, 1)
        self._skip_count = check_count("after", after, 0)

    def lets_pass(self) -> bool:
        """Count a request; returns whether it is one of those that pass first."""
        if self._skip_count == 0:
            return False
        self._skip_count -= 1
        return True


class FaultQueue(Generic[E]):
    """Faults of one kind. The caller holds a lock.

    Faults with a count come first, in their order. Those without one come after them, the newest
    first: it replaces the older.
    """

    def __init__(self) -> None:
        self._counted: list[PlannedFault[E]] = []
        self._endless: list[PlannedFault[E]] = []

    def __len__(self) -> int:
        return len(self._counted) + len(self._endless)

    def add(self, fault: PlannedFault[E]) -> None:
        """Add a fault."""
        if fault.left_count is None:
            self._endless.insert(0, fault)
        else:
            self._counted.append(fault)

    def clear(self) -> None:
        """Forget all."""
        self._counted.clear()
        self._endless.clear()

    def aimed_at(self, target: RequestTarget) -> Iterator[tuple[PlannedFault[E], list[Place]]]:
        """The faults that may apply to a request, each with the places it concerns.

        The caller calls `use` for the one that it applies; later faults do not count the request.
        """
        for fault in (*self._counted, *self._endless):
            places = fault.aim.hit(target)
            if places is not None:
                yield fault, places

    def use(self, fault: PlannedFault[E]) -> E:
        """Count a request that `fault` was applied to."""
        if fault.left_count is not None:
            fault.left_count -= 1
            if fault.left_count == 0:
                self._counted.remove(fault)
        return fault.effect

    def take(self, target: RequestTarget) -> E | None:
        """The effect of the first fault that applies to a request, or None."""
        for fault, _ in self.aimed_at(target):
            if not fault.lets_pass():
                return self.use(fault)
        return None
