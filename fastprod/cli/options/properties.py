"""Settings from Java properties files, and from name=value on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from fastprod.settings.properties_file import decode_properties, parse_properties


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings of a Java properties file, the last one winning.

    Raises:
        click.UsageError: the file cannot be read, or is no such file.
    """
    try:
        return parse_properties(decode_properties(path.read_bytes()))
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"{path} is no properties file: {error}") from None


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
