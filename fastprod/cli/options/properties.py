"""Settings from Java properties files, and from name=value on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# The name ends at the first '=', ':' or space that has no backslash before it.
_NAME: Final = re.compile(r"(?:\\.|[^\\=:\s])*")
_SEPARATOR: Final = re.compile(r"\s*[=:]?\s*")


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings of a Java properties file, the last one winning.

    Raises:
        click.UsageError: the file cannot be read, or is no text.

    Source: java.util.Properties.load.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8 text: {error.reason}") from error
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


def split_properties(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Return what name=value arguments say, the last one winning.

    Raises:
        click.UsageError: one has no '=', or no name; its text is not shown, as it may be a secret.
    """
    found = {}
    for number, pair in enumerate(pairs, 1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option}: value {number} is not of the form name=value")
        found[name.strip()] = value.strip()
    return found
