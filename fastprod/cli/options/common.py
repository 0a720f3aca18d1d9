"""Options that several commands share: the log, headers, quiet."""

from __future__ import annotations

import logging

import click

from fastprod.cli.options.headers import header


def _show_log(ctx: click.Context, param: click.Parameter, verbose: bool) -> bool:
    # Without a handler Python's logging would write warnings between our lines.
    handler = logging.StreamHandler() if verbose else logging.NullHandler()
    logging.basicConfig(
        handlers=[handler],
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    return verbose


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_show_log,
    help="Show the client's log on stderr.",
)

spark_verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    callback=_show_log,
    help="Show the logs of the client and of Spark on stderr.",
)

header_option = click.option(
    "-H",
    "--header",
    "headers",
    type=header,
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; may be repeated, also with the same name.",
)

quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Do not print the count at the end."
)
