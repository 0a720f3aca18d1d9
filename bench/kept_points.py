"""KeptPoints: what finished points brought, in a file: an interrupted run goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class KeptPoints:
    """What each point brought, by name.

    Args:
        path: the file; its folder is made if there is none.
        sources: fingerprint; what other sources brought does not count.
    """

    def __init__(self, path: Path, sources: str) -> None:
        self._path = path
        found = json.loads(path.read_text()) if path.exists() else {}
        self._state: dict[str, Any] = {"sources": sources, "points": {}}
        if found.get("sources") == sources:
            self._state = found

    def get(self, name: str) -> dict[str, Any] | None:
        """What was kept of the point, or None."""
        found: dict[str, Any] | None = self._state["points"].get(name)
        return found

    def keep(self, name: str, found: dict[str, Any]) -> None:
        """Write down what the point brought: values that JSON can have."""
        self._state["points"][name] = found
        self._path.parent.mkdir(exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._state, indent=1) + "\n")
        part.replace(self._path)
