"""Prints what pip must install before the project itself: build, run-time and chosen extras.

`ci/requirements.py EXTRA...` reads pyproject.toml, so that no requirement is written twice;
`ci/requirements.py --build` prints what builds the engine, and no more.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
BUILD = "--build"


def requirements(pyproject: dict[str, Any], extras: list[str]) -> list[str]:
    """Requirement lines, each once, in the order of the file.

    Raises: KeyError for an extra that pyproject.toml does not have.
    """
    lines: list[str] = list(pyproject["build-system"]["requires"])
    if extras == [BUILD]:
        return lines
    project = pyproject["project"]
    lines += project["dependencies"]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return list(dict.fromkeys(lines))


if __name__ == "__main__":
    print("\n".join(requirements(tomllib.loads(PYPROJECT.read_text()), sys.argv[1:])))
