"""Options of the commands that start Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from fastprod.cli.properties import split_properties

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
                "--master", metavar="URL", help="Where Spark runs. [default: local[*], in here]"
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
