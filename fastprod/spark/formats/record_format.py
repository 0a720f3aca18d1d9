"""RecordFormat: how a record's value and key are made of columns of a DataFrame.

Its batches have the columns of Spark's own sink (value, key, topic, ...), so that the code after it
need not know of formats.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow
import pyarrow.compute
from pyspark.sql.types import BinaryType, StructField, StructType

from fastprod.spark.formats import avro, json, protobuf, raw
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.formats.encoder import Encoder
from fastprod.spark.formats.format_options import FORMATS, REGISTRY
from fastprod.spark.formats.schema_registry import URL
from fastprod.spark.rows.bad_row import BadRow

# Columns that are parts of a record: "*" leaves them out, unless an option replaces them.
_PARTS: Final = ("key", "topic", "partition", "headers", "timestamp")
_FIELDS: Final = ".*"


@dataclass(frozen=True)
class EncodedPart:
    """A record's value or key, made of columns.

    Attributes:
        name: "value" or "key".
        columns: their indexes.
        encoder: makes bytes of them.
        is_struct: whether there is one column, whose fields are encoded; a null stays a null.
    """

    name: str
    columns: tuple[int, ...]
    encoder: Encoder
    is_struct: bool = False

    def encode(self, batch: pyarrow.RecordBatch) -> pyarrow.Array:
        """One cell of bytes a row; see `Encoder.encode`."""
        if not self.is_struct:
            return self.encoder.encode(batch.select(list(self.columns)))
        structs = batch.column(self.columns[0])
        if not structs.null_count:
            return self.encoder.encode(pyarrow.RecordBatch.from_struct_array(structs))
        # A null struct is left out: its fields may be declared never to be null.
        is_there = structs.is_valid()
        present = pyarrow.RecordBatch.from_struct_array(structs.filter(is_there))
        try:
            cells = self.encoder.encode(present)
        except BadRow as error:
            rows = pyarrow.compute.indices_nonzero(is_there)
            raise BadRow(rows[error.index].as_py(), str(error)) from error
        nulls = pyarrow.nulls(len(structs), cells.type)
        return pyarrow.compute.replace_with_mask(nulls, is_there, cells)


@dataclass(frozen=True)
class RecordFormat:
    """How batches are encoded; plain data that Spark pickles into its tasks.

    Attributes:
        schema: of what `batches` yields.
        kept: indexes of the columns that stay as they are.
        parts: those that are encoded; they come after the others.
    """

    schema: StructType
    kept: tuple[int, ...]
    parts: tuple[EncodedPart, ...]

    def batches(self, given: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Encode batch by batch; rows stay where they are.

        Raises:
            BadRow: a row cannot be written in its format.
            TypeError, ValueError: the arrays have other types than planned.
        """
        if not self.parts:
            yield from given
            return
        for batch in given:
            yield self.encode(batch)

    def encode(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """One batch with the columns of `schema`."""
        columns = [batch.column(index) for index in self.kept]
        columns += [each.encode(batch) for each in self.parts]
        return pyarrow.RecordBatch.from_arrays(columns, names=self.schema.fieldNames())


def record_format(
    schema: StructType, given: Mapping[str, str], header_columns: tuple[tuple[str, str], ...] = ()
) -> RecordFormat:
    """Read value.format, value.columns, key.format and key.columns.

    value.columns is "*", names between commas, or "name.*".  "*" is every column but those that are
    parts of a record: key (unless key.columns names others), topic (without the option topic),
    partition, headers, timestamp.  A column that is named is encoded; if it has the name of such a
    part, it is used as that too.  "name.*" is the fields of a struct, whatever their names; a
    struct that is null is a null value.  key.columns has no "*".

    Args:
        schema: the DataFrame's.
        given: the write's options.
        header_columns: (header's name, name of its column).

    Raises:
        FormatError: an option, a column or a type, or a library that is missing.

    Blocks: for the schema registry, if schema.registry.url is given.
    """
    options = {name.lower(): value for name, value in given.items()}
    if not any(name in options for name in ("value.format", "value.columns", "key.columns")):
        _refuse_idle(options, {})
        return RecordFormat(schema, tuple(range(len(schema.fields))), ())
    names = schema.fieldNames()
    formats = {"value": _format(options, "value", "raw")}
    chosen = {"value": _value_columns(options, schema, formats["value"])}
    if "key.columns" in options:
        formats["key"] = _format(options, "key", formats["value"])
        chosen["key"] = _named_columns(options, "key.columns", schema)
    elif "key.format" in options:
        raise FormatError("key.format needs key.columns: without it the column key is the key")
    _refuse_idle(options, formats)
    for header, column in header_columns:
        if column in chosen and not chosen[column].is_column(column, formats[column]):
            raise FormatError(
                f"header.column.{header} names {column!r}, which is what {column}.format makes: "
                f"give the column another name"
            )
    topic = options.get("topic")
    parts = tuple(
        EncodedPart(
            part,
            found.columns,
            _encoder(part, formats[part], found.schema, options, topic),
            is_struct=found.is_struct,
        )
        for part, found in chosen.items()
    )
    wanted = {*_PARTS, *(column for _, column in header_columns)} - {"value", *chosen}
    kept = tuple(index for index, name in enumerate(names) if name in wanted)
    fields = [schema.fields[index] for index in kept]
    fields += [StructField(each.name, BinaryType()) for each in parts]
    return RecordFormat(StructType(fields), kept, parts)


def _refuse_idle(options: Mapping[str, str], formats: Mapping[str, str]) -> None:
    """Refuse options that say nothing: of a format that is not used, or of a registry.

    Args:
        options: by their names in lower case.
        formats: those of the parts that are encoded, by the part.
    """
    value = formats.get("value")
    has_registry = bool(options.get(URL, "").strip())
    missing = {
        "json.": "" if "json" in formats.values() else "value.format=json or key.format=json",
        "avro.": "" if value == "avro" else "value.format=avro",
        "protobuf.": "" if value == "protobuf" else "value.format=protobuf",
        REGISTRY: ("" if has_registry else URL) if formats else "value.format=avro or protobuf",
        "key.format": "" if formats else "value.format",
    }
    for name in options:
        for prefix, wanted in missing.items():
            if wanted and name != wanted and name.startswith(prefix):
                raise FormatError(f"{name} says nothing without {wanted}: give that, or leave it")


def _format(options: Mapping[str, str], part: str, default: str) -> str:
    found = options.get(f"{part}.format", default).strip().lower()
    choices = FORMATS if part == "value" else tuple(each for each in FORMATS if each != "protobuf")
    if found not in choices:
        raise FormatError(f"{part}.format = {found!r}: must be one of {', '.join(choices)}")
    return found


@dataclass(frozen=True)
class _Chosen:
    """The columns that are encoded, by index, or the one whose fields are; and their types."""

    columns: tuple[int, ...]
    schema: StructType
    is_struct: bool = False

    def is_column(self, name: str, format_name: str) -> bool:
        """Whether the part is just the column of its own name, unchanged."""
        return format_name == "raw" and not self.is_struct and self.schema.fieldNames() == [name]


def _value_columns(options: Mapping[str, str], schema: StructType, format_name: str) -> _Chosen:
    if "value.columns" not in options and format_name == "raw":
        options = {**options, "value.columns": "value"}
    if options.get("value.columns", "*").strip() != "*":
        return _named_columns(options, "value.columns", schema)
    keys = {
        each.strip().removesuffix(_FIELDS) for each in options.get("key.columns", "key").split(",")
    }
    replaced = {"topic"} if "topic" in options else set()
    parts = {*_PARTS} - replaced - ({"key"} - keys)
    names = schema.fieldNames()
    found = [index for index, name in enumerate(names) if name not in parts]
    if not found:
        raise FormatError(
            f"value.columns=* finds no column but those of a record ({', '.join(names)}): name "
            f"columns"
        )
    return _unambiguous(found, schema, "value.columns")


def _named_columns(options: Mapping[str, str], option: str, schema: StructType) -> _Chosen:
    names = schema.fieldNames()
    struct = options[option].strip().removesuffix(_FIELDS)
    if struct in names and options[option].strip() not in names:
        return _fields_of(names.index(struct), schema, option)
    found = []
    for name in (each.strip() for each in options[option].split(",")):
        if name not in names:
            nearest = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(names)}"
            raise FormatError(f"{option}: there is no column named {name!r}; {hint}")
        found.append(names.index(name))
    return _unambiguous(found, schema, option)


def _fields_of(column: int, schema: StructType, option: str) -> _Chosen:
    name, kind = schema.fields[column].name, schema.fields[column].dataType
    if not isinstance(kind, StructType):
        raise FormatError(
            f"{option}: {name}{_FIELDS} is the fields of a struct, and column {name!r} is of type "
            f"{kind.simpleString()}; name the column alone"
        )
    _unambiguous([column], schema, option)
    _unambiguous(list(range(len(kind.fields))), kind, option)
    return _Chosen((column,), kind, is_struct=True)


def _unambiguous(found: list[int], schema: StructType, option: str) -> _Chosen:
    """Refuse columns of the same name: rows reach Python by name, one would be lost."""
    names = schema.fieldNames()
    for index in found:
        if names.count(names[index]) > 1 or found.count(index) > 1:
            raise FormatError(
                f"{option} has the column {names[index]!r} twice: name it once, and rename or drop "
                f"columns that share a name"
            )
    return _Chosen(tuple(found), StructType([schema.fields[index] for index in found]))


def _encoder(
    part: str, format_name: str, schema: StructType, options: Mapping[str, str], topic: str | None
) -> Encoder:
    topic = None if topic is None else topic.strip()
    if format_name == "avro":
        return avro.plan(schema, options, topic, part)
    if format_name == "protobuf":
        return protobuf.plan(schema, options, topic)
    if part == "value" and options.get(URL, "").strip():
        raise FormatError(f"{URL} needs value.format=avro or protobuf, not {format_name}")
    return json.plan(schema, options) if format_name == "json" else raw.plan(schema, part)
