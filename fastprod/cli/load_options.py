"""Options that the loading commands share: files, columns, headers, summary."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fastprod.cli.headers import header_column
from fastprod.cli.options import header_option
from fastprod.cli.properties import split_properties

if TYPE_CHECKING:
    from fastprod.spark.column_mapping import ColumnMapping

FORMATS: Final = ("parquet", "csv", "json", "orc", "avro", "text")
_NEEDED: Final = {"pyspark": "fastprod[spark]", "pyarrow": "fastprod[spark]"}

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def need(*modules: str) -> None:
    """Refuse a command whose libraries are not installed.

    Raises:
        click.UsageError: which, and the command that installs them.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise click.UsageError(
                f"{module} is not installed here: python -m pip install '{_NEEDED[module]}'"
            )


def column_options(function: _Decorated) -> _Decorated:
    """The options that say which column is what."""
    for option in reversed(
        (
            click.option("--key", metavar="COLUMN", help="Keys. [default: key, if there is one]"),
            click.option(
                "--value", metavar="COLUMN", help="Values. [default: value, or the only column]"
            ),
            click.option(
                "--partition-column",
                "partition",
                metavar="COLUMN",
                help="Partitions; null: the partitioner's.",
            ),
            click.option(
                "--timestamp-column",
                "timestamp",
                metavar="COLUMN",
                help="Timestamps, or milliseconds since the epoch; null: now.",
            ),
            header_option,
            click.option(
                "--header-column",
                "header_columns",
                type=header_column,
                multiple=True,
                metavar="NAME=COLUMN",
                help="A header whose value is in a column; may be repeated.",
            ),
        )
    ):
        function = option(function)
    return function


def column_mapping(given: Mapping[str, Any]) -> ColumnMapping:
    """What `column_options` say, and `value_format` where a command has it."""
    from fastprod.spark.column_mapping import ColumnMapping  # noqa: PLC0415

    names = [field.name for field in dataclasses.fields(ColumnMapping)]
    return ColumnMapping(**{name: given[name] for name in names if name in given})


def file_options(formats: Sequence[str]) -> Callable[[_Decorated], _Decorated]:
    """The options that say how files are read."""

    def decorate(function: _Decorated) -> _Decorated:
        function = click.option(
            "-O",
            "--option",
            "reader_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the reader by Spark's name, such as sep=; or header=false; may be "
            "repeated. CSV has a header line unless told otherwise.",
        )(function)
        return click.option(
            "--format",
            "kind",
            type=click.Choice(formats),
            help="Format of the files. [default: what their names end in]",
        )(function)

    return decorate


def _writable(context: click.Context, parameter: click.Parameter, target: str | None) -> str | None:
    """Refuse a file that cannot be written now, not when everything is sent."""
    if target not in (None, "-"):
        path = Path(target).absolute()
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.BadParameter(f"cannot write {target}")
    return target


summary_option = click.option(
    "--summary",
    metavar="FILE",
    callback=_writable,
    help="Write what was done as one JSON object to FILE; -: to standard output, and nothing else "
    "there.",
)

progress_option = click.option(
    "--progress",
    "progress_kind",
    type=click.Choice(("auto", "json", "none")),
    default="auto",
    show_default=True,
    help="How to tell, on stderr, how far it is: a bar or lines, a JSON object a line, or not.",
)

rate_option = click.option(
    "--max-mb-per-second",
    "--max-mbps",
    "max_mb_per_second",
    type=click.FloatRange(min=0),
    default=0,
    metavar="MB",
    help="Send at most so many megabytes (1,000,000 bytes) of keys and values a second, all tasks "
    "together; 0: no limit.",
)


def reader_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """What `--option` says; a value keeps its white space, as a separator may be one."""
    names = split_properties(pairs, "--option")
    found = {pair.partition("=")[0].strip(): pair.partition("=")[2] for pair in pairs}
    return {name: found[name] for name in names}


def write_summary(target: str | None, summary: Mapping[str, Any]) -> None:
    """Write the summary, if one is wanted.

    Raises:
        click.UsageError: the file cannot be written.
    """
    if target is None:
        return
    text = json.dumps(summary)
    if target == "-":
        click.echo(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--summary: cannot write {target}: {error.strerror}") from error
