r"""CSV without multiLine, in plain Python; escape is the quote, and "" in quotes is no null.

It is as Spark's reader reads it, but for lines of white space that may be rows: Spark skips them.

Each line is parsed by itself, and a quoted field that is not closed ends with it. Where univocity,
Spark's parser, has rules of its own (text behind an end quote, quotes that are not closed, NUL for
a quote where there is none), a line is `odd`: nobody else reads it alike.
"""

from __future__ import annotations

import re

Row = tuple[str | None, ...]


def lines(data: bytes) -> list[bytes]:
    r"""What ends with \n, \r\n or \r, as Hadoop does it, and is not empty."""
    found = re.split(rb"\r\n|\r|\n", data.removeprefix(b"\xef\xbb\xbf"))
    return [line for line in found if line]


def fields(line: bytes, separator: str = ",", quote: str = '"') -> list[tuple[str, bool]] | None:
    """The fields of a line, and whether each was in quotes; None: the line is odd."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    found: list[tuple[str, bool]] = []
    at = 0
    while True:
        if quote and text.startswith(quote, at):
            value, at = "", at + 1
            while True:
                end = text.find(quote, at)
                if end < 0:
                    return None
                value += text[at:end]
                at = end + 1
                if not text.startswith(quote, at):
                    break
                value, at = value + quote, at + 1
            found.append((value, True))
            if at < len(text) and text[at] != separator:
                return None
        else:
            end = text.find(separator, at)
            end = len(text) if end < 0 else end
            found.append((text[at:end], False))
            at = end
        if at == len(text):
            return found
        at += 1


def rows(
    data: bytes,
    separator: str = ",",
    quote: str = '"',
    null_value: str = "",
    *,
    has_header: bool = True,
) -> list[Row] | None:
    """All rows, the header's among them; None: a line is odd, or has another count of fields."""
    found: list[Row] = []
    if not quote and b"\0" in data:
        return None
    for line in lines(data):
        if all(byte <= 32 for byte in line):
            may_be_row = not has_header if not found else separator <= " " or len(found[0]) == 1
            if not may_be_row:
                continue
        parts = fields(line, separator, quote)
        if parts is None or (found and len(parts) != len(found[0])):
            return None
        found.append(tuple(_value(text, in_quotes, null_value) for text, in_quotes in parts))
    return found


def _value(text: str, in_quotes: bool, null_value: str) -> str | None:
    if (text == null_value and text) or (not text and not in_quotes):
        return None
    return text
