"""The text of Java's properties files, as settings.  Source: java.util.Properties.load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# The name ends at the first '=', ':' or space that has no backslash before it.
_NAME: Final = re.compile(r"(?:\\.|[^\\=:\s])*")
_SEPARATOR: Final = re.compile(r"\s*[=:]?\s*")


def parse_properties(text: str) -> dict[str, str]:
    """Return {name: value}, the last one of a name winning."""
    found = {}
    for line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None  # it can match nothing
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None
        found[_unescaped(name.group())] = _unescaped(line[separator.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a backslash at the end joins the next line."""
    joined = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip()
        if not joined and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined += line[:-1]
            continue
        yield joined + line
        joined = ""
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        escape = found.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(plain, text)
