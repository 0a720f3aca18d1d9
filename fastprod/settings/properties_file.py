"""The text of Java's properties files, as settings, and the reverse.

Source: java.util.Properties.load and store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

# Spaces are these alone; Python's \s has more, such as the no-break space.
_SPACES: Final = " \t\f"
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# The name ends at the first '=', ':' or space that has no backslash before it.
_NAME: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")

_BACKSLASHES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_NOT_PLAIN: Final = re.compile(r"[^ -\[\]-~]")
_OF_SYNTAX: Final = re.compile(r"[ =:#!]")
_FIRST_SPACE: Final = re.compile(r"\A ")


def parse_properties(text: str) -> dict[str, str]:
    r"""Return {name: value}, the last one of a name winning.

    Raises:
        ValueError: a \u is not followed by four hexadecimal digits; no value is shown.
    """
    found = {}
    for line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None  # it can match nothing
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None
        found[_unescaped(name.group())] = _unescaped(line[separator.end() :])
    return found


def decode_properties(data: bytes) -> str:
    r"""Return the text of a file: UTF-8, or else ISO-8859-1.

    Java takes every file for ISO-8859-1, and so do Kafka's tools. A file of UTF-8 with letters
    beyond ASCII is what somebody meant for another client; read as the other it would be wrong.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def properties_text(settings: Mapping[str, str]) -> str:
    """Return a file's text: what is not printable ASCII is escaped, so that all readers agree."""
    return "".join(
        f"{_OF_SYNTAX.sub(_backslashed, _escaped(name))}="
        f"{_FIRST_SPACE.sub(_backslashed, _escaped(value))}\n"
        for name, value in settings.items()
    )


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a backslash at the end joins the next line."""
    joined: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_SPACES)
        if joined is None and (not line or line[0] in "#!"):
            continue
        joined = (joined or "") + line
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined = joined[:-1]
            continue
        if joined:
            yield joined
        joined = None
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code, escape = found.groups()
        if code is not None:
            return chr(int(code, 16))
        if escape == "u":
            raise ValueError("a \\u is not followed by four hexadecimal digits")
        return _ESCAPED.get(escape, escape)

    text = _ESCAPE.sub(plain, text)
    # A character beyond U+FFFF is two escapes.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(text: str) -> str:
    def escape(found: re.Match[str]) -> str:
        if found.group() in _BACKSLASHES:
            return _BACKSLASHES[found.group()]
        units = found.group().encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))

    return _NOT_PLAIN.sub(escape, text)


def _backslashed(found: re.Match[str]) -> str:
    return "\\" + found.group()
