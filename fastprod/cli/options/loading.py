"""LoadingOptions: what the loading commands have in common: columns, files, rate, summary."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fastprod.cli.options.client_settings import (
    PRODUCER_OPTIONS,
    ClientSettings,
    Option,
    client_options,
    compression_option,
    with_options,
)
from fastprod.cli.options.common import header_option, quiet_option
from fastprod.cli.options.finite_range import FiniteRange
from fastprod.cli.options.headers import header_column
from fastprod.cli.options.properties import split_properties

if TYPE_CHECKING:
    from fastprod.load.column_mapping import ColumnMapping

_NEEDED: Final = {"pyspark": "fastprod[spark]", "pyarrow": "fastprod[columns]"}


@dataclass(frozen=True)
class LoadingOptions:
    """What the options in `loading_options` say.

    Attributes:
        topic: topic to write to.
        client: settings of the producer.
        kind: format of the files; None: by the ends of their names.
        mapping: which column is what.
        reader_options: by Spark's names.
        max_bytes_per_second: of keys and values; 0: no limit.
        progress_kind: of `ByteProgress`.
        summary: file for the summary; "-": standard output; None: there is none.
        quiet: whether to leave out the count at the end.
    """

    topic: str
    client: ClientSettings
    kind: str | None
    mapping: ColumnMapping
    reader_options: Mapping[str, str]
    max_bytes_per_second: int
    progress_kind: str
    summary: str | None
    quiet: bool


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


_COLUMN_OPTIONS: Final = (
    click.option("--key", metavar="COLUMN", help="Keys. [default: key, if there is one]"),
    click.option("--value", metavar="COLUMN", help="Values. [default: value, or the only column]"),
    click.option(
        "--partition-column",
        "partition",
        metavar="COLUMN",
        help="Partitions; null: the partitioner chooses.",
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


def _writable(context: click.Context, parameter: click.Parameter, target: str | None) -> str | None:
    """Refuse a file that cannot be written, before anything is sent."""
    if target not in (None, "-"):
        path = Path(target).absolute()
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.BadParameter(f"cannot write {target}")
    return target


_OTHER_OPTIONS: Final = (
    click.option(
        "--max-mb-per-second",
        "--max-mbps",
        "max_mb_per_second",
        type=FiniteRange(min=0),
        default=0,
        metavar="MB",
        help="Send at most so many megabytes (1,000,000 bytes) of keys and values a second, all "
        "tasks together; 0: no limit.",
    ),
    click.option(
        "--progress",
        "progress_kind",
        type=click.Choice(("auto", "json", "none")),
        default="auto",
        show_default=True,
        help="Progress on stderr: a bar or lines, one JSON object a line, or none.",
    ),
    click.option(
        "--summary",
        metavar="FILE",
        callback=_writable,
        help="Write what was done as one JSON object to FILE; -: to standard output, and nothing "
        "else there.",
    ),
    quiet_option,
)


def loading_options(client_id: str, formats: Sequence[str], *modules: str) -> Option:
    """Give a command the options of every load, which reach it as one argument, `loading`.

    Args:
        client_id: default of client.id.
        formats: choices of --format.
        modules: libraries that the command needs; see `need`.
    """
    options: tuple[Option, ...] = (
        click.option("--topic", required=True, help="Topic to write to."),
        *_file_options(formats),
        *_COLUMN_OPTIONS,
        *_OTHER_OPTIONS,
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(
            *,
            topic: str,
            client: ClientSettings,
            kind: str | None,
            reader_options: Sequence[str],
            max_mb_per_second: float,
            progress_kind: str,
            summary: str | None,
            quiet: bool,
            **given: Any,
        ) -> Any:
            need(*modules)
            from fastprod.load.column_mapping import ColumnMapping  # noqa: PLC0415

            columns = [field.name for field in dataclasses.fields(ColumnMapping)]
            loading = LoadingOptions(
                topic,
                client,
                kind,
                ColumnMapping(**{name: given.pop(name) for name in columns if name in given}),
                reader_pairs(reader_options),
                math.ceil(max_mb_per_second * 1e6),
                progress_kind,
                summary,
                quiet,
            )
            return function(loading=loading, **given)

        taken = client_options(client_id, *PRODUCER_OPTIONS, compression_option)(command)
        return with_options(options)(taken)

    return decorate


def _file_options(formats: Sequence[str]) -> Sequence[Option]:
    return (
        click.option(
            "--format",
            "kind",
            type=click.Choice(formats),
            help="Format of the files. [default: by the ends of their names]",
        ),
        click.option(
            "-O",
            "--option",
            "reader_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the reader by Spark's name, such as sep=; or header=false; may be "
            "repeated. By default CSV has a header line.",
        ),
    )


def reader_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `--option`; a value keeps its white space, as it may be a separator."""
    names = split_properties(pairs, "--option")
    found = {pair.partition("=")[0].strip(): pair.partition("=")[2] for pair in pairs}
    return {name: found[name] for name in names}
