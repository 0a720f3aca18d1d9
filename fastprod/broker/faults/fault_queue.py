"""Planned faults in the order in which they were asked for, and which of them meets a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from fastprod.broker.faults.target import Aim, Place, RequestTarget, check_count

E = TypeVar("E")


class PlannedFault(Generic[E]):
    """One fault that waits for its requests.

    Args:
        effect: what happens to them.
        aim: which requests.
        n: how many of them; None: all, until the reset.
        after: how many pass first.

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
        """Whether a request that it is aimed at is one of those that pass first; counts it."""
        if self._skip_count == 0:
            return False
        self._skip_count -= 1
        return True


class FaultQueue(Generic[E]):
    """Faults of one kind. The caller holds a lock.

    Those with a count come first, the oldest before the others. Those without an end come after
    them, the newest first: it replaces the older.
    """

    def __init__(self) -> None:
        self._counted: list[PlannedFault[E]] = []
        self._endless: list[PlannedFault[E]] = []

    def __len__(self) -> int:
        return len(self._counted) + len(self._endless)

    def add(self, fault: PlannedFault[E]) -> None:
        """Plan it."""
        if fault.left_count is None:
            self._endless.insert(0, fault)
        else:
            self._counted.append(fault)

    def clear(self) -> None:
        """Forget all."""
        self._counted.clear()
        self._endless.clear()

    def aimed_at(self, target: RequestTarget) -> Iterator[tuple[PlannedFault[E], list[Place]]]:
        """The faults that may meet a request, each with the places it is at, as they are now.

        Whoever takes one calls `use`; a fault that comes after it does not see the request.
        """
        for fault in (*self._counted, *self._endless):
            places = fault.aim.hit(target)
            if places is not None:
                yield fault, places

    def use(self, fault: PlannedFault[E]) -> E:
        """One request less that `fault` waits for."""
        if fault.left_count is not None:
            fault.left_count -= 1
            if fault.left_count == 0:
                self._counted.remove(fault)
        return fault.effect

    def take(self, target: RequestTarget) -> E | None:
        """The effect of the first fault that meets a request, or None."""
        for fault, _ in self.aimed_at(target):
            if not fault.lets_pass():
                return self.use(fault)
        return None
