"""Source and prose are ASCII, end with a newline, and have no tabs (but in the Makefile)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import checkout

SUFFIXES = (*checkout.SOURCE_SUFFIXES, ".toml", ".md", ".txt", ".in", ".cfg", ".sh", ".yml", "")


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    excused = checkout.exceptions(root, "ascii")
    faults: dict[str, list[str]] = {}
    for path in checkout.files(root):
        name = str(path.relative_to(root))
        if path.suffix in SUFFIXES and (found := list(_of_file(path, name))):
            faults[name] = found
    return [fault for name, found in faults.items() if name not in excused for fault in found] + [
        f"ci/exceptions.toml: [ascii] {name}: nothing to excuse"
        for name in excused.keys() - faults.keys()
    ]


def _of_file(path: Path, name: str) -> Iterator[str]:
    data = path.read_bytes()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.isascii():
            shown = ascii(line.decode(errors="replace").strip())[:80]
            yield f"{name}:{number}: not ASCII: {shown}"
        if b"\t" in line and path.name != "Makefile":
            yield f"{name}:{number}: a tab"
    if data and not data.endswith(b"\n"):
        yield f"{name}: no newline at the end"


if __name__ == "__main__":
    sys.exit(checkout.conclude("ascii", check(checkout.root_argument(sys.argv))))
