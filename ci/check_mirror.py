"""Each module has a namesake in tests/unit with at least one test in it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import checkout

# Folders whose modules are mirrored, from fastprod/ on.
MIRRORED = (".", "_core", "client", "net", "broker", "cli")
_TEST = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    excused = checkout.exceptions(root, "mirror")
    missing = {}
    for folder in MIRRORED:
        for module in _modules(root / "fastprod" / folder):
            name = module.relative_to(root).with_suffix("").as_posix()
            test = root / "tests" / "unit" / folder / f"test_{module.stem}.py"
            if not test.exists() or not _TEST.search(test.read_text()):
                missing[name] = test.relative_to(root).as_posix()
    faults = [f"{name}: no test in {test}" for name, test in missing.items() if name not in excused]
    return faults + [
        f"ci/exceptions.toml: [mirror] {name}: not a module without tests"
        for name in excused.keys() - missing.keys()
    ]


def _modules(folder: Path) -> list[Path]:
    by_stem = {
        path.stem: path
        for path in sorted(folder.glob("*"))
        if path.suffix in (".py", ".pxd", ".pyx") and path.stem != "__init__"
    }
    return list(by_stem.values())


if __name__ == "__main__":
    sys.exit(checkout.conclude("mirror", check(checkout.root_argument(sys.argv))))
