"""MeasuredPoint: what one point brought when it was last measured."""

from __future__ import annotations

import dataclasses
import time


@dataclasses.dataclass(frozen=True)
class MeasuredPoint:
    """What --accept keeps of a point.

    Args:
        table: as printed.
        figures: by dotted name, beginning with the point's.
        ended: when, for each time that it was measured.
    """

    table: str
    figures: dict[str, float]
    ended: list[str]

    @classmethod
    def now(
        cls, table: str, figures: dict[str, float], before: MeasuredPoint | None
    ) -> MeasuredPoint:
        """What it brought just now; `before`: at its last time, when it missed a bound."""
        ended = [*(before.ended if before else ()), time.strftime("%Y-%m-%d %H:%M:%S")]
        return cls(table, figures, ended)

    @property
    def history(self) -> str:
        """When it was measured, and how often: nobody is to take the third try for the first."""
        earlier = len(self.ended) - 1
        again = f"; missed a bound before, tries: {earlier + 1}" if earlier else ""
        return f"measured: {self.ended[-1]}{again}"
