"""The statements of a Python source, of which only their nesting is walked: expressions are most of
a tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node, and each statement in it, however deep, as they stand in the source."""
    yield node
    for name in _BLOCKS:
        for each in getattr(node, name, ()):
            yield from statements(each)
