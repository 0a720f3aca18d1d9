"""AvroFiles: which fields files of Avro have; Spark takes those of one file for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from fastprod.load.input_files import InputError, InputFile

_MAGIC: Final = b"Obj\x01"
_MOST_BYTES: Final = 16 * 1024 * 1024

Fields = frozenset[tuple[str, ...]]
"""Paths of fields, through records, arrays, maps and unions."""


def widest_file(files: Iterable[InputFile]) -> InputFile | None:
    """The file that has the fields of all; None: all that are not empty have the same.

    Raises:
        InputError: there is none, or a file is no file of Avro.
    """
    filled = [file for file in files if file.size_bytes]
    if len(filled) < 2:
        return None
    found: dict[Fields, InputFile] = {}
    for file in filled:
        found.setdefault(avro_fields(file.path), file)
    if len(found) < 2:
        return None
    widest = max(found, key=len)
    for fields, file in found.items():
        others = sorted(".".join(path) for path in fields - widest)
        if others:
            raise InputError(
                f"{file.path} has the field {others[0]}, which {found[widest].path} does not have, "
                f"and has not all of that one's: Spark takes the fields of one file for all; name "
                f"the columns by --schema, or load them one by one"
            )
    return found[widest]


def avro_fields(path: str) -> Fields:
    """The fields of a file, by its header.

    Raises:
        InputError: it cannot be read, or is no file of Avro.
    """
    try:
        with Path(path).open("rb") as file:
            schema = _schema(file)
        return frozenset(_paths(schema, (), "", {}, ()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as avro: {error}") from error


def _schema(file: BinaryIO) -> Any:
    """The schema in the metadata, a map of bytes behind the magic."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as files of Avro do")
    while count := _number(file):
        if count < 0:
            count = -count
            _number(file)  # the size of this block of the map
        for _ in range(count):
            name, value = _bytes(file), _bytes(file)
            if name == b"avro.schema":
                return json.loads(value)
    raise ValueError("it has no schema")


def _bytes(file: BinaryIO) -> bytes:
    size = _number(file)
    if not 0 <= size <= _MOST_BYTES:
        raise ValueError("its header is damaged")
    data = file.read(size)
    if len(data) < size:
        raise ValueError("it ends in its header")
    return data


def _number(file: BinaryIO) -> int:
    """A zigzag varint of up to ten bytes."""
    number = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            raise ValueError("it ends in its header")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError("its header is damaged")


def _paths(
    schema: Any,
    path: tuple[str, ...],
    namespace: str,
    named: dict[str, Any],
    within: tuple[str, ...],
) -> Iterator[tuple[str, ...]]:
    """Paths of the fields in a schema.

    Args:
        schema: or a part of one.
        path: of that part.
        namespace: in which it stands.
        named: records by their full names, as far as they are known.
        within: records that it is a part of: a list's record has itself in a field.
    """
    if isinstance(schema, list):
        for each in schema:
            yield from _paths(each, path, namespace, named, within)
        return
    if isinstance(schema, str):
        full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        schema = named.get(full) or named.get(schema)
        if schema is None:
            return
    kind = schema["type"]
    if isinstance(kind, dict | list):
        yield from _paths(kind, path, namespace, named, within)
    elif kind in ("array", "map"):
        inner = schema["items" if kind == "array" else "values"]
        yield from _paths(inner, path, namespace, named, within)
    elif kind in ("record", "error"):
        name = schema["name"]
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
        full = name if "." in name or not space else f"{space}.{name}"
        named[full] = {**schema, "name": full}
        if full in within:
            return
        for field in schema["fields"]:
            yield (*path, field["name"])
            yield from _paths(field["type"], (*path, field["name"]), space, named, (*within, full))
    else:
        yield from _paths(kind, path, namespace, named, within)
