"""FinishedPoints: what points brought, in a file: an interrupted run goes on where it was."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import accept
import checkout
from bench.budget import BUDGET_FILE

_STEP = "peers"


def sources() -> str:
    """Fingerprint of what figures depend on: all that the step counts but the bounds."""
    (step,) = (each for each in accept.steps() if each.name == _STEP)
    return accept.fingerprint(checkout.ROOT, step, {BUDGET_FILE.relative_to(checkout.ROOT)})


@dataclasses.dataclass(frozen=True)
class FinishedPoint:
    """What one point brought when it was last measured.

    Args:
        table: as printed.
        figures: by dotted name, beginning with the point's.
        ended: when, each time that it was measured.
    """

    table: str
    figures: dict[str, float]
    ended: list[str]

    @property
    def history(self) -> str:
        """When it was measured, and how often before: nobody is to take the third try for one."""
        earlier = len(self.ended) - 1
        return f"{self.ended[-1]}{f', the {earlier} before missed a bound' if earlier else ''}"


class FinishedPoints:
    """The points that are measured, by name.

    Args:
        path: the file.
        sources: fingerprint; what other sources brought does not count.
    """

    def __init__(self, path: Path, sources: str) -> None:
        self._path = path
        found = json.loads(path.read_text()) if path.exists() else {}
        self._state: dict[str, Any] = {"sources": sources, "points": {}}
        if found.get("sources") == sources:
            self._state = found

    def get(self, name: str) -> FinishedPoint | None:
        """What the point brought; None, if it is not measured."""
        given = self._state["points"].get(name)
        return None if given is None else FinishedPoint(**given)

    def keep(self, name: str, table: str, figures: Mapping[str, float]) -> FinishedPoint:
        """Write down what the point brought just now."""
        before = self.get(name)
        ended = [*(before.ended if before else ()), time.strftime("%Y-%m-%d %H:%M:%S")]
        found = FinishedPoint(table, dict(figures), ended)
        self._state["points"][name] = dataclasses.asdict(found)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._state, indent=1) + "\n")
        part.replace(self._path)
        return found
