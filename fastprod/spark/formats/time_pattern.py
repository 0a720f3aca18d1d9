"""Patterns of dates and times, with those of java.time's letters that stand for numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from fastprod._core.json.times import TimePattern

DATE_LETTERS: Final = "yMd"
TIMESTAMP_NTZ_LETTERS: Final = "yMdHmsS"
TIMESTAMP_LETTERS: Final = "yMdHmsSXx"
_WIDEST: Final = {"y": 9, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 9, "X": 5, "x": 5}


def time_pattern(name: str, pattern: str, letters: str) -> TimePattern:
    """Compile a pattern such as yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX].

    Parts in brackets are always written: a time in a row has all of them.

    Args:
        name: of the option, for errors.
        pattern: letters stand for numbers, text is in apostrophes, other characters for themselves.
        letters: those that are allowed.

    Raises:
        ValueError: the pattern has other letters, or too many of one.
    """
    parts = list(_parts(name, pattern, letters))
    if not parts:
        raise ValueError(f"{name} is empty: give a pattern, or leave it out")
    return TimePattern(parts)


def _parts(name: str, pattern: str, letters: str) -> Iterator[tuple[str, int]]:
    pieces = pattern.split("'")
    if len(pieces) % 2 == 0:
        raise ValueError(f"{name} = {pattern!r} has an apostrophe without its other one")
    for index, piece in enumerate(pieces):
        if index % 2:
            # Two apostrophes in a row stand for one.
            yield from ((char, 0) for char in _ascii(name, piece or "'"))
            continue
        # Between two quoted texts nothing is an apostrophe of the text.
        if piece == "" and 0 < index < len(pieces) - 1:
            yield "'", 0
        for char, run in itertools.groupby(piece):
            width = len(list(run))
            if not char.isalpha():
                if char not in "[]":
                    yield from [(_ascii(name, char), 0)] * width
            elif char not in letters or width > _WIDEST[char]:
                known = ", ".join(f"{each} (up to {_WIDEST[each]})" for each in letters)
                raise ValueError(
                    f"{name} = {pattern!r}: {char * width} is not among what can be written here: "
                    f"{known}; put text in apostrophes"
                )
            else:
                yield char, width


def _ascii(name: str, text: str) -> str:
    if not text.isascii():
        raise ValueError(f"{name}: {text!r} is not ASCII")
    return text
