"""What the words behind --header and --header-column stand for."""

from __future__ import annotations

import os

import click


def header(text: str) -> tuple[str, bytes]:
    """The header that NAME=VALUE stands for; the value may have any bytes, '=' too.

    Raises:
        click.BadParameter: there is no name, or none in UTF-8.
    """
    name, value = _pair(text)
    return name, os.fsencode(value)


def header_column(text: str) -> tuple[str, str]:
    """The header and the column that NAME=COLUMN stands for.

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
        raise click.BadParameter(f"{text!r} is not of the form name=value")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"the name of {text!r} is not UTF-8") from None
    return name, value
