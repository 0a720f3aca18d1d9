"""Which modules of tests/support a set of sources uses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

HELPERS = Path("tests/support")
_WORD = re.compile(r"\w+")


def is_helper(source: Path) -> bool:
    """Whether it is a module of tests/support; `source` is relative to the checkout."""
    return source.suffix == ".py" and source.is_relative_to(HELPERS)


def used_helpers(root: Path, users: Iterable[Path], sources: Collection[Path]) -> set[Path]:
    """The helpers among `sources` that `users` name, and those that these name in turn.

    Named is a helper by a file that has each part of its path as a word, as an import has, a
    command that runs it, or a program in a string. So some are found that are not used; none is
    missed. All paths are relative to `root`; what is no Python names nothing.
    """
    parts = {each: each.with_suffix("").parts[1:] for each in sources if is_helper(each)}
    found: set[Path] = set()
    to_read = [each for each in users if each.suffix == ".py"]
    while to_read:
        words = set(_WORD.findall((root / to_read.pop()).read_text()))
        named = [each for each in parts if each not in found and words.issuperset(parts[each])]
        found.update(named)
        to_read += named
    return found
