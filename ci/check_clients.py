"""docs/clients.md names each test that has a row for it, and no other."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import checkout

TABLE = "docs/clients.md"
# Of tests/support/clients/client_table.py, which writes the table.
FIXTURE = "client_row"
_ROW = re.compile(r"\| [^|]+ \| [^|]+ \| [^|]+ \| `(tests/[\w/]+\.py::test_\w+)` \|")


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    table, due = root / TABLE, set(_tests(root))
    if not table.exists():
        return [f"{TABLE} is missing"]
    named = set()
    faults = []
    # A table's head is two lines.
    for line in [each for each in table.read_text().splitlines() if each.startswith("|")][2:]:
        if (found := _ROW.fullmatch(line)) is None:
            faults.append(f"{TABLE}: no row as a test writes it: {line}")
        else:
            named.add(found[1])
    faults += [f"{TABLE}: {test} has no row to give: make it again" for test in named - due]
    return faults + [f"{TABLE}: {test} has no row: make it again" for test in due - named]


def _tests(root: Path) -> Iterator[str]:
    """file::function of each test that asks for the fixture."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text()
        if FIXTURE not in text:
            continue
        for node in ast.parse(text).body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            if FIXTURE in (each.arg for each in node.args.args):
                yield f"{path.relative_to(root).as_posix()}::{node.name}"


if __name__ == "__main__":
    sys.exit(checkout.conclude("clients", check(checkout.root_argument(sys.argv))))
