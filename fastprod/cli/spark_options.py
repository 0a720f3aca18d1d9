"""Options of the commands that start Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from fastprod.cli.properties import split_properties
from fastprod.errors import ConfigError

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def query_options(function: _Decorated) -> _Decorated:
    """The options that say what becomes of the rows that are read."""
    for option in reversed(
        (
            click.option(
                "--value-format",
                type=click.Choice(("raw", "json")),
                default="raw",
                show_default=True,
                help="raw: the value is a column; json: all columns as one object.",
            ),
            click.option(
                "--select", metavar="SQL", help="Expressions that make the columns, with commas."
            ),
            click.option("--where", metavar="SQL", help="Which rows to take."),
            click.option(
                "--sql", metavar="SQL", help="A whole query over the table input, instead of both."
            ),
        )
    ):
        function = option(function)
    return function


def query(given: Mapping[str, Any]) -> dict[str, str | None]:
    """What `query_options` say in SQL: select, where and sql.

    Raises:
        click.UsageError: sql is given besides the others.
    """
    if given["sql"] is not None and (given["select"] or given["where"]):
        raise click.UsageError("--sql is a whole query: give it without --select and --where")
    return {name: given[name] for name in ("select", "where", "sql")}


def session_options(function: _Decorated) -> _Decorated:
    """The options that say where Spark runs, and how."""
    for option in reversed(
        (
            click.option(
                "--master",
                metavar="URL",
                help="Where Spark runs; local[2] tries a task once, local[2,4] up to 4 times. "
                "[default: local[*,4], all cores in here]",
            ),
            click.option(
                "--conf",
                multiple=True,
                metavar="NAME=VALUE",
                help="A setting of Spark; may be repeated.",
            ),
            click.option(
                "--packages",
                metavar="GROUP:NAME:VERSION,...",
                help="Maven packages for Spark, such as those of Avro or of its Kafka source.",
            ),
            click.option("--jars", metavar="FILE,...", help="Jars for Spark."),
        )
    ):
        function = option(function)
    return function


def session_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """The settings that `session_options` stand for.

    Raises:
        click.UsageError: one is not of the form name=value.
    """
    settings = split_properties(given["conf"], "--conf")
    for option, name in (("packages", "spark.jars.packages"), ("jars", "spark.jars")):
        if given[option] is not None:
            settings[name] = given[option]
    return settings


def check_sink_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings of a producer that the sink in Spark's workers does not take.

    Args:
        settings: by Kafka's dotted names.

    Raises:
        click.UsageError: which, and why.
    """
    from fastprod.spark.options import sink_options  # noqa: PLC0415

    try:
        sink_options({f"kafka.{name}": each for name, each in settings.items()}).check_settings()
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
