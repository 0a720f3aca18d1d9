"""CommandLine: the group of all commands, and how their failures are reported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from fastprod.cli.ending_signals import ended_like_ctrl_c
from fastprod.cli.output.failure import (
    EXIT_CODES,
    CommandFailure,
    Interrupted,
    RecordsFailed,
    one_line,
)
from fastprod.errors import KafkaError
from fastprod.version import VERSION

# Each has a module of its name in fastprod.cli.commands.
COMMANDS: Final = (
    "broker",
    "demo",
    "doctor",
    "load",
    "perf",
    "produce",
    "spark-load",
    "spark-stream",
)


class CommandLine(click.Group):
    """A group whose failures take one line on stderr; click would add a usage text.

    A command is imported when it is asked for: all together take longer than most of them run.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted({*COMMANDS, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None: there is none of that name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"fastprod.cli.commands.{name}")
        command: click.Command = getattr(module, name)
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code; without `standalone_mode` click does it all."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            code = super().main(args, "fastprod", complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = Interrupted.exit_code
        except click.ClickException as error:
            click.echo(_told(error), err=True)
            code = error.exit_code
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it does not catch becomes a failure with an exit code."""
        try:
            with ended_like_ctrl_c():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        except KafkaError as error:
            raise RecordsFailed(str(error)) from error


def _told(error: click.ClickException) -> str:
    path, advice = "fastprod", ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        path = error.ctx.command_path
        advice = f" ({path} --help tells more)"
    elif isinstance(error, CommandFailure):
        path = error.command_path
    return f"{path}: {one_line(error.format_message())}{advice}"


@click.group(cls=CommandLine, invoke_without_command=True, epilog=EXIT_CODES)
@click.version_option(VERSION, prog_name="fastprod", message="%(prog)s %(version)s")
@click.pass_context
def fastprod(ctx: click.Context) -> None:
    """Sends records to Kafka, tells how well that goes here, and is a broker for tests."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def main() -> None:
    """Run the command line of this process and exit."""
    fastprod.main()
