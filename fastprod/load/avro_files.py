"""AvroFiles: what files of Avro must have in common, so that Spark reads all they have.

Spark takes the schema of one file for all, by the names of fields alone: it leaves out fields of
others, cuts their decimals, and takes plain numbers for times. It makes structs of unions, and
numbers of times of day.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from fastprod.load.input_files import InputError, InputFile

_MAGIC: Final = b"Obj\x01"
_MOST_BYTES: Final = 16 * 1024 * 1024
# Logical types that Spark reads with their meaning, and the types that they are stored as.
_LOGICAL: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("int",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string",),
}
_MEANING: Final = ("type", "name", "logicalType", "precision", "scale", "size", "symbols")
_WAY_OUT: Final = "name the columns that are wanted by --schema, or load the file by itself"


def check_avro_files(files: Iterable[InputFile]) -> None:
    """Refuse files of which Spark would leave out or change something.

    Args:
        files: all of them; empty ones are passed over.

    Raises:
        InputError: a file is none of Avro, has a type that Spark gives another meaning, or another
            schema than the first.
    """
    first: tuple[str, Any] | None = None
    for file in files:
        if not file.size_bytes:
            continue
        schema = avro_schema(file.path)
        if first is None:
            first = file.path, schema
        elif first[1] != schema:
            raise InputError(
                f"{file.path} has another schema than {first[0]} "
                f"({_difference(schema, first[1])}): Spark reads all files by the schema of one; "
                f"{_WAY_OUT}"
            )


def avro_names(path: str) -> list[str]:
    """The names of a file's fields.

    Raises:
        InputError: it cannot be read, or is no file of Avro.
    """
    try:
        with Path(path).open("rb") as file:
            return [field["name"] for field in _schema(file)["fields"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} cannot be read as avro: {error}") from error


def avro_schema(path: str) -> Any:
    """The schema of a file, by its header: what of it matters to Spark, with no type by name.

    Raises:
        InputError: it cannot be read, is no file of Avro, or has a type that Spark gives another
            meaning.
    """
    try:
        with Path(path).open("rb") as file:
            schema = _schema(file)
        return _plain(schema, "", "", {})
    except InputError as error:
        raise InputError(f"{path}: {error}; {_WAY_OUT}") from error
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


def _plain(schema: Any, path: str, namespace: str, named: dict[str, Any]) -> Any:
    """A schema, or a part of one, without what Spark does not look at.

    Args:
        schema: or a part of one.
        path: of that part, for messages.
        namespace: in which it stands.
        named: types by their full names, as far as they are known.

    Raises:
        InputError: Spark gives a type another meaning.
    """
    if isinstance(schema, list):
        return _union([_plain(each, path, namespace, named) for each in schema], path)
    if isinstance(schema, str):
        full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        return named.get(full, named.get(schema, {"type": schema}))
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _plain(kind, path, namespace, named)
    found = {name: schema[name] for name in _MEANING if name in schema}
    _check_logical(found, path)
    if "name" in found:
        name = found.pop("name")
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
        namespace = space or ""
        full = name if "." in name or not space else f"{space}.{name}"
        # Within its own fields a record is told by its name.
        named[full] = {"type": full}
    if kind == "array":
        found["items"] = _plain(schema["items"], f"{path}[]", namespace, named)
    elif kind == "map":
        found["values"] = _plain(schema["values"], f"{path}[]", namespace, named)
    elif kind in ("record", "error"):
        found["fields"] = [
            (each["name"], _plain(each["type"], f"{path}.{each['name']}", namespace, named))
            for each in schema["fields"]
        ]
        _check_names([name for name, _ in found["fields"]], path)
        if not found["fields"]:
            raise InputError(f"field {path.strip('.')!r} is a record without fields")
    elif set(found) == {"type"}:
        return named.get(kind, found)
    if "name" in schema:
        named[full] = found
    return found


def _union(types: list[Any], path: str) -> Any:
    """A union of null and one type; others are structs to Spark.

    Raises:
        InputError: it is another one.
    """
    null = {"type": "null"}
    others = [each for each in types if each != null]
    if len(others) > 1:
        told = ", ".join(str(each["type"]) for each in types)
        raise InputError(
            f"field {path.strip('.')!r} is one of {told}, of which Spark would make a struct"
        )
    return {"union": others, "has_null": len(others) < len(types)}


def _check_logical(found: Mapping[str, Any], path: str) -> None:
    logical = found.get("logicalType")
    if logical is not None and found["type"] not in _LOGICAL.get(logical, ()):
        raise InputError(
            f"field {path.strip('.')!r} is {found['type']} with the logical type {logical!r}, "
            f"which Spark would pass over"
        )


def _check_names(names: list[str], path: str) -> None:
    if len({name.lower() for name in names}) < len(names):
        raise InputError(
            f"fields of {path.strip('.') or 'the record'} have names that differ in case alone "
            f"({', '.join(names)}), which are one to Spark"
        )


def _difference(one: Any, other: Any) -> str:
    """The first field of records that is not the same, in words."""
    fields, others = (dict(each.get("fields", ())) for each in (one, other))
    for name in (*fields, *others):
        if fields.get(name) != others.get(name):
            return f"field {name!r}"
    return "the order of its fields"
