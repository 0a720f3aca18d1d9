"""Each module has a namesake in tests/unit with at least one test in it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import checkout

# Folders below fastprod/ whose modules are mirrored, as are those of fastprod/ itself; and folders
# in them whose modules are not.
MIRRORED = ("_core", "aio", "plugins", "protocol", "client", "broker", "cli")
LEFT_OUT = (
    "_core/testing",
    "broker/server/apis",
    "broker/server/apis/group",
    "broker/server/apis/replica",
    "broker/server/apis/transaction",
    "broker/log",
    "broker/log/segments",
    "protocol/messages",
    "protocol/messages/group",
    "protocol/messages/replica",
    "protocol/messages/security",
    "protocol/messages/transaction",
)
_TEST = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    excused = checkout.exceptions(root, "mirror")
    missing = {}
    package = root / "fastprod"
    for module in _modules(package):
        inside = module.relative_to(package)
        name = module.relative_to(root).with_suffix("").as_posix()
        test = root / "tests" / "unit" / inside.with_name(f"test_{module.stem}.py")
        if not test.exists() or not _TEST.search(test.read_text()):
            missing[name] = test.relative_to(root).as_posix()
    faults = [f"{name}: no test in {test}" for name, test in missing.items() if name not in excused]
    return faults + [
        f"ci/exceptions.toml: [mirror] {name}: not a module without tests"
        for name in excused.keys() - missing.keys()
    ]


def _modules(package: Path) -> list[Path]:
    """One source of each mirrored module."""
    folders = [package]
    for name in MIRRORED:
        top = package / name
        folders += [top, *sorted(path for path in top.rglob("*") if path.is_dir())]
    left_out = {package / name for name in LEFT_OUT}
    by_name = {
        path.with_suffix(""): path
        for folder in folders
        if folder not in left_out
        for path in sorted(folder.glob("*"))
        if path.suffix in (".py", ".pxd", ".pyx") and path.stem != "__init__"
    }
    return list(by_name.values())


if __name__ == "__main__":
    sys.exit(checkout.conclude("mirror", check(checkout.root_argument(sys.argv))))
