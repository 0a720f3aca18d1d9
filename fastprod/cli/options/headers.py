"""The values of --header and --header-column."""

from __future__ import annotations

import os

import click


def header(text: str) -> tuple[str, bytes]:
    """Parse NAME=VALUE, a header; the value may have any bytes, '=' too.

    Raises:
        click.BadParameter: there is no name, or none in UTF-8.
    """
    name, value = _pair(text)
    return name, os.fsencode(value)


def header_column(text: str) -> tuple[str, str]:
    """Parse NAME=COLUMN, a header and its column.

    Raises:
        click.BadParameter: there is no name, none in UTF-8, or no column.
    """
    name, column = _pair(text)
    if not column:
        raise click.BadParameter(f"{text!r} names no column")
    return name, column


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # Not shown: in the form of another tool it may be a token.
        raise click.BadParameter("it is not of the form name=value")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"the name {name!r} is not UTF-8") from None
    return name, value
