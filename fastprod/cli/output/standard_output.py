"""print_out: writes to standard output; if that cannot be done, the command fails."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from fastprod.cli.output.failure import CommandFailure


class NotPrinted(CommandFailure):
    """What the command has to say could not be written; its work is done."""

    exit_code = 2


def print_out(text: str) -> None:
    """Write a line, or several, to standard output.

    Raises:
        NotPrinted: it cannot be written; the message has the text, if it is one line.
    """
    try:
        click.echo(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            _discard_the_rest()
        told = "" if "\n" in text else f": {text}"
        raise NotPrinted(f"cannot write to standard output ({error.strerror}){told}") from error


def _discard_the_rest() -> None:
    """Let Python write to nowhere what it still has in its buffer when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
