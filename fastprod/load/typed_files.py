"""TypedFiles: what files of Parquet and ORC must have in common, so that Spark reads all they have.

Spark merges the columns of all files. It takes names that differ in case for one, puts nulls where
a file has no such column, and reads types that it does not know by what they are stored as.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow
import pyarrow.orc
import pyarrow.parquet

from fastprod.load.input_files import InputError, InputFile

KINDS: Final = ("parquet", "orc")
"""Formats whose files tell the types of their columns; those of Avro have their own module."""

SPARKS_TYPE: Final = b"spark.sql.catalyst.type"
"""In files of ORC, by which Spark marks the types of columns that it has written."""
# Times without zone are whole numbers there, and those with one are as those of others without.
_MEANT: Final = ("timestamp", "interval")

_PLAIN: Final[tuple[Callable[[pyarrow.DataType], bool], ...]] = (
    pyarrow.types.is_boolean,
    pyarrow.types.is_integer,
    pyarrow.types.is_float32,
    pyarrow.types.is_float64,
    pyarrow.types.is_string,
    pyarrow.types.is_large_string,
    pyarrow.types.is_binary,
    pyarrow.types.is_large_binary,
    pyarrow.types.is_fixed_size_binary,
    pyarrow.types.is_date32,
    pyarrow.types.is_decimal128,
    pyarrow.types.is_timestamp,
    pyarrow.types.is_null,
)
# As old Hives name the columns of ORC.
_NUMBERED: Final = re.compile(r"_col[0-9]+")
_EXTENSIONS: Final = ("arrow.json", "arrow.bool8")


def check_typed_files(
    files: Iterable[InputFile],
    kind: str,
    *,
    named: Collection[str] | None = None,
    needed: Sequence[str] = (),
    known: Collection[str] | None = None,
    types: Mapping[str, str] | None = None,
) -> None:
    """Refuse files of which Spark would leave out or change something.

    Args:
        files: all of them; empty ones are passed over.
        kind: one of `KINDS`.
        named: the columns that the user asked for; None: all.
        needed: columns that each file must have.
        known: columns that Spark will read; None: all that there are.
        types: the only ones that there may be, as of `typed_columns`; None: any.

    Raises:
        InputError: which file, and why.
    """
    spellings: dict[str, tuple[str, str]] = {}
    paths = [file.path for file in files if file.size_bytes]
    for path in paths:
        schema = _schema(path, kind)
        if kind == "orc" and len(paths) > 1 and any(map(_NUMBERED.fullmatch, schema.names)):
            raise InputError(
                f"{path} has columns that are named by their numbers ({', '.join(schema.names)}), "
                f"which Spark takes in the order of another file: load the files one by one"
            )
        for column in schema:
            if named is not None and column.name.lower() not in {each.lower() for each in named}:
                continue
            _check_type(path, column.name, column.type)
            for name, told in _parts(column.name, column):
                first, there = spellings.setdefault(name.lower(), (name, path))
                if first != name:
                    raise InputError(
                        f"{path} has the column {name!r} and {there} {first!r}, which are one to "
                        f"Spark: rename it, or load them one by one"
                    )
                if types is not None and name not in types:
                    raise _left_out(path, name)
                if types is not None and types[name] != told:
                    raise InputError(
                        f"{path} has the column {name!r} of type {told}, and files before it "
                        f"{types[name]}: leave it out, or name the columns by --schema"
                    )
            if named is None and known is not None and column.name not in known:
                raise _left_out(path, column.name)
        for name in needed:
            if name not in schema.names:
                raise InputError(
                    f"{path} has no column {name!r}, so that its records would have null there; "
                    f"there are {', '.join(schema.names)}; leave the file out"
                )


def column_names(path: str, kind: str) -> list[str]:
    """The columns of a file.

    Raises:
        InputError: it cannot be read.
    """
    names: list[str] = _schema(path, kind).names
    return names


def typed_columns(files: Iterable[InputFile], kind: str) -> dict[str, str]:
    """The columns of files, with all fields in them by their paths, and their types in words.

    Raises:
        InputError: a file cannot be read.
    """
    return {
        name: told
        for file in files
        if file.size_bytes
        for column in _schema(file.path, kind)
        for name, told in _parts(column.name, column)
    }


def _left_out(path: str, name: str) -> InputError:
    return InputError(
        f"{path} has the column {name!r}, which would be left out: the files before it do not have "
        f"it; name the columns by --schema"
    )


def _schema(path: str, kind: str) -> pyarrow.Schema:
    try:
        if kind == "orc":
            return pyarrow.orc.ORCFile(path).schema
        return pyarrow.parquet.read_metadata(path).schema.to_arrow_schema()
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as {kind}: {error}") from error


def _check_type(path: str, name: str, kind: pyarrow.DataType) -> None:
    """Refuse a type that is not known to be read by Spark with its meaning.

    Raises:
        InputError: which.
    """
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    if pyarrow.types.is_nested(kind):
        for index in range(kind.num_fields):
            field = kind.field(index)
            _check_type(path, f"{name}.{field.name}", field.type)
    elif getattr(kind, "extension_name", "") not in _EXTENSIONS and not any(
        is_type(kind) for is_type in _PLAIN
    ):
        raise InputError(
            f"{path}: column {name!r} is of type {kind}, which Spark does not know; name the other "
            f"columns by --schema"
        )


def _parts(name: str, field: pyarrow.Field) -> Iterator[tuple[str, str]]:
    """A column and all fields in it: names, and types as far as they matter to Spark."""
    types, kind = pyarrow.types, field.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    mark = (field.metadata or {}).get(SPARKS_TYPE, b"").decode(errors="replace")
    if mark.startswith(_MEANT):
        yield name, mark
    elif types.is_nested(kind):
        is_struct, is_map = types.is_struct(kind), types.is_map(kind)
        yield name, "struct" if is_struct else "map" if is_map else "list"
        for index in range(kind.num_fields):
            inner = kind.field(index)
            # The name of what is in a list or a map is the writer's, and nobody's.
            yield from _parts(f"{name}.{inner.name if is_struct else index}", inner)
    elif types.is_timestamp(kind):
        yield name, "timestamp without zone" if kind.tz is None else "timestamp"
    else:
        yield name, str(kind).removeprefix("large_")
