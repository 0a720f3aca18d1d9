"""No folder has more modules than a reader takes in at a glance; helpers of tests lie in rooms.

Counted are the folders of fastprod, tests/support, bench and examples. Not those of the tests
themselves, which follow the modules that they test, and not ci: its scripts are run by name and
import each other by name alone, so that they lie in one folder.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import checkout

MODULES = 20
TOPS = ("fastprod", "tests/support", "bench", "examples")
_SUFFIXES = (".py", ".pyx", ".pxd", ".pyi")


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    rooms: dict[str, set[str]] = defaultdict(set)
    faults = []
    for path in checkout.files(root):
        name = path.relative_to(root).as_posix()
        if path.suffix not in _SUFFIXES or path.stem == "__init__":
            continue
        if name.startswith(tuple(f"{top}/" for top in TOPS)):
            # The .pyx, .pxd and .pyi of one module are one.
            rooms[str(Path(name).parent)].add(path.stem)
        if path.parent == root / "tests" and path.name != "conftest.py":
            faults.append(f"{name}: a module at the root of tests; helpers lie in tests/support")
    return faults + [
        f"{room}: {len(modules)} modules, the limit is {MODULES}; split it by what they are for"
        for room, modules in rooms.items()
        if len(modules) > MODULES
    ]


if __name__ == "__main__":
    sys.exit(checkout.conclude("rooms", check(checkout.root_argument(sys.argv))))
