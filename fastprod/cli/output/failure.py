"""How a command fails: one line on stderr, and an exit code."""

from __future__ import annotations

from typing import Final

import click

EXIT_CODES: Final = (
    "Exit codes: 0 all went well; 1 records failed, or differ; 2 the command or a setting is "
    "wrong, what it needs is missing here, or its output cannot be written; 3 the cluster or the "
    "topic cannot be reached, nothing was sent; 130 Ctrl-C, SIGTERM or "
    "SIGHUP."
)
"""A paragraph in every command's --help."""


def one_line(text: str) -> str:
    """`text` with white space reduced to single spaces."""
    return " ".join(text.split())


class CommandFailure(click.ClickException):
    """A failure, reported in one line; subclasses have the exit code."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))
        context = click.get_current_context(silent=True)
        self.command_path = "fastprod" if context is None else context.command_path


class RecordsFailed(CommandFailure):
    """Records were not delivered, or were read back differently."""

    exit_code = 1


class Unreachable(CommandFailure):
    """No record could be sent: DNS, network, no Kafka there, no such topic."""

    exit_code = 3


class Interrupted(CommandFailure):
    """Ctrl-C, SIGTERM or SIGHUP; the message says how many records were delivered."""

    exit_code = 130
