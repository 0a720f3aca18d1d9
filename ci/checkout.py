"""The files of a checkout, as the house's checks see them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE_SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".c")


def files(root: Path) -> list[Path]:
    """Every file that is or could be committed, sorted; without a repository: every file."""
    if (root / ".git").exists():
        # A clone may belong to another user than the one who checks it.
        listed = subprocess.run(
            [
                *("git", "-c", "safe.directory=*", "-C", str(root)),
                *("ls-files", "-z", "--cached", "--others", "--exclude-standard"),
            ],
            capture_output=True,
            check=True,
        )
        paths = [root / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = list(root.rglob("*"))
    return sorted(path for path in set(paths) if path.is_file())


def exceptions(root: Path, table: str) -> dict[str, str]:
    """Path to reason, from one table of ci/exceptions.toml."""
    path = root / "ci" / "exceptions.toml"
    if not path.exists():
        return {}
    found: dict[str, str] = tomllib.loads(path.read_text()).get(table, {})
    return found


def conclude(check: str, faults: Iterable[str]) -> int:
    """Print the faults of one check; return its exit code."""
    found = sorted(faults)
    for fault in found:
        print(f"{check}: {fault}", file=sys.stderr)
    return 1 if found else 0


def root_argument(argv: list[str]) -> Path:
    """The checkout to look at: the first argument, or this one."""
    return Path(argv[1]).resolve() if len(argv) > 1 else ROOT
