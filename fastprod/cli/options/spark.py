"""SparkOptions: where Spark runs, what it reads, and which SQL makes the rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

from fastprod.cli.options.client_settings import ClientSettings, with_options
from fastprod.cli.options.common import spark_verbose_option
from fastprod.cli.options.properties import split_properties
from fastprod.errors import ConfigError

FORMATS: Final = ("parquet", "csv", "json", "orc", "avro", "text")
"""Formats of files that Spark reads."""


@dataclass(frozen=True)
class SparkOptions:
    """What the options in `spark_options` say.

    Attributes:
        schema: columns of the files, as DDL; None: the files' own.
        query: SQL that makes the rows, by the names select, where and sql; None: not given.
        master: where Spark runs; None: on all cores of this machine.
        settings: of the session.
        is_verbose: whether Spark's log goes to stderr.
    """

    schema: str | None = None
    query: Mapping[str, str | None] = field(default_factory=dict)
    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    is_verbose: bool = False


_OPTIONS: Final = (
    click.option(
        "--schema",
        metavar="DDL",
        help="Columns of the files, such as 'id bigint, t string'; text needs none.",
    ),
    click.option(
        "--value-format",
        type=click.Choice(("raw", "json")),
        default="raw",
        show_default=True,
        help="raw: the value is a column; json: all columns as one object.",
    ),
    click.option("--select", metavar="SQL", help="Expressions that make the columns, with commas."),
    click.option("--where", metavar="SQL", help="Which rows to take."),
    click.option(
        "--sql", metavar="SQL", help="A whole query over the table input, instead of both."
    ),
    click.option(
        "--guarantee",
        type=click.Choice(("at_least_once",)),
        default="at_least_once",
        show_default=True,
        expose_value=False,
        help="A task or micro-batch that is repeated sends its rows again.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs; local[2] tries a task once, local[2,4] up to 4 times. "
        "[default: local[*,4], all cores of this machine]",
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
    spark_verbose_option,
)


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of Spark, which reach it as one argument, `spark`.

    --value-format is that of `LoadingOptions.mapping`.
    """

    @functools.wraps(function)
    def command(
        *,
        schema: str | None,
        select: str | None,
        where: str | None,
        sql: str | None,
        master: str | None,
        conf: tuple[str, ...],
        packages: str | None,
        jars: str | None,
        verbose: bool,
        **given: Any,
    ) -> Any:
        if sql is not None and (select or where):
            raise click.UsageError("--sql is a whole query: give it without --select and --where")
        settings = split_properties(conf, "--conf")
        for name, value in (("spark.jars.packages", packages), ("spark.jars", jars)):
            if value is not None:
                settings[name] = value
        query = {"select": select, "where": where, "sql": sql}
        return function(spark=SparkOptions(schema, query, master, settings, verbose), **given)

    return with_options(_OPTIONS)(command)


def sink_settings(client: ClientSettings) -> dict[str, str]:
    """Return the settings for the sink in Spark's workers, by Kafka's dotted names.

    Raises:
        click.UsageError: a setting is wrong, or the sink does not take it.
    """
    from fastprod.spark.sink.options import sink_options  # noqa: PLC0415

    settings = client.by_name
    try:
        sink_options({f"kafka.{name}": each for name, each in settings.items()}).check_settings()
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    return settings
