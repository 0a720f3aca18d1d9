"""Point: one cliff, and how its cost is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from bench.cliffs.side import Figures, Side

QUICK_DIVISOR = 5


@dataclasses.dataclass(frozen=True)
class CliffPoint:
    """One point of the table.

    Args:
        name: dotted; with its size, where it has one.
        meaning: what is done, and whose costs are taken.
        measure: does it once with a side's fastprod, at a size; checks what was done.
        size: how many of what the point is about.
        rounds: how often each side is measured.
    """

    name: str
    meaning: str
    measure: Callable[[Side, int], Figures]
    size: int
    rounds: int = 3

    def run(self, side: Side, is_quick: bool) -> Figures:
        """Measure once; QUICK_DIVISOR times smaller if it is to be quick."""
        return self.measure(side, self.size // QUICK_DIVISOR if is_quick else self.size)
