"""CommandLine: the group of all commands, and how their failures are reported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from fastprod.cli.commands.broker import broker
from fastprod.cli.commands.demo import demo
from fastprod.cli.commands.doctor import doctor
from fastprod.cli.commands.load import load
from fastprod.cli.commands.perf import perf
from fastprod.cli.commands.produce import produce
from fastprod.cli.commands.spark_load import spark_load
from fastprod.cli.commands.spark_stream import spark_stream
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


class CommandLine(click.Group):
    """A group whose failures take one line on stderr; click would add a usage text."""

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


for _command in (produce, perf, doctor, demo, broker, load, spark_load, spark_stream):
    fastprod.add_command(_command)


def main() -> None:
    """Run the command line of this process and exit."""
    fastprod.main()
