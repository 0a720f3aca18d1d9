r"""Separators: bytes between two fields, typed on a command line with escapes such as \t."""

from __future__ import annotations

import os
import re
from typing import Final

import click

_PART: Final = re.compile(rb"\\(x[0-9a-fA-F]{2}|[tnr0\\])|\\|[^\\]+", re.DOTALL)
_ESCAPED: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def separator(text: str) -> bytes:
    r"""Return the bytes of an argument; \t, \n, \r, \0, \\ and \xHH are escapes.

    Raises:
        click.BadParameter: another escape, or nothing at all.
    """
    joined = b""
    for part in _PART.finditer(os.fsencode(text)):
        escape = part.group(1)
        if escape is not None:
            joined += _ESCAPED.get(escape) or bytes([int(escape[1:], 16)])
        elif part.group() == b"\\":
            raise click.BadParameter(rf"{text!r}: after a backslash comes t, n, r, 0, \ or xHH")
        else:
            joined += part.group()
    if not joined:
        raise click.BadParameter("must have at least one character")
    return joined
