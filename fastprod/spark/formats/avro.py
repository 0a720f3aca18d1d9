"""Avro by fastavro: a Python object for each value, as that library takes them."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from fastprod.spark.formats.column_types import FormatError, refuse_types
from fastprod.spark.formats.library import load
from fastprod.spark.formats.message_rows import message_array
from fastprod.spark.formats.schema_registry import registered_prefix
from fastprod.spark.formats.types_of_batch import with_types

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE: Final = "fastavro"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ROOT: Final = "topLevelRecord"  # Spark's own name for it
_EACH: Final = "*"  # each element of an array, or value of a map

_SIMPLE: Final[dict[type[DataType], Any]] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    BinaryType: "bytes",
    NullType: "null",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


_TIMES_OF_DAY: Final = ("time-millis", "time-micros")
_MICROS: Final = ("timestamp-micros", "local-timestamp-micros")
_OTHERS: Final = tuple(each.replace("micros", by) for each in _MICROS for by in ("millis", "nanos"))
_LOGICAL: Final = ("date", "decimal", *_TIMES_OF_DAY, *_MICROS, *_OTHERS)
_WHOLE: Final = ("int", "long", "date", *_TIMES_OF_DAY, *_MICROS, *_OTHERS)
# fastavro writes what it is given as far as Python can convert it: a decimal as an int without its
# fraction, any text as the truth value true, a string as an array of its characters.
_FITTING: Final[dict[type[DataType], tuple[str, ...]]] = {
    BooleanType: ("boolean",),
    ByteType: (*_WHOLE, "float", "double"),
    ShortType: (*_WHOLE, "float", "double"),
    IntegerType: (*_WHOLE, "double"),
    LongType: ("long", "time-micros", *_MICROS, *_OTHERS),
    FloatType: ("float", "double"),
    DoubleType: ("double",),
    DecimalType: ("decimal",),
    StringType: ("string", "enum"),
    BinaryType: ("bytes", "fixed", "decimal"),
    NullType: ("null",),
    DateType: ("int", "long", "date", "double"),
    # Not a plain long, for which Spark's to_avro writes milliseconds.
    TimestampType: ("timestamp-micros",),
    TimestampNTZType: ("local-timestamp-micros",),
    ArrayType: ("array",),
    MapType: ("map", "record"),
    StructType: ("record", "map"),
}
"""Types and logical types that keep what is in a column."""

_NUMBERS: Final = ("int", "long", "float", "double")
_FRACTIONS: Final = ("float", "double")
# Of a union fastavro takes the first type, of these, that fits the value.
_OF_A_UNION: Final[dict[type[DataType], tuple[str, ...]]] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType), _NUMBERS),
    **dict.fromkeys((DateType, TimestampType, TimestampNTZType), _NUMBERS),
    **dict.fromkeys((FloatType, DoubleType), _FRACTIONS),
    StringType: ("string", "enum", "date"),
}

_OF_JSON: Final[dict[type, tuple[str, ...]]] = {
    str: ("string", "enum", "bytes", "fixed"),
    list: ("array",),
    dict: ("record", "map"),
}


@dataclass(frozen=True)
class AvroEncoder:
    """Rows as Avro records.

    Attributes:
        schema: Avro's, as JSON.
        prefix: what goes before each record.
        truths: paths of the truth values that must not be null, from a row on, by field names and
            `_EACH`.
    """

    schema: str
    prefix: bytes = b""
    truths: tuple[tuple[str, ...], ...] = ()

    def encode(self, rows: pyarrow.RecordBatch) -> pyarrow.Array:
        """One record for each row; see `Encoder.encode`."""
        schema, write = _writer(self.schema)

        def put(out: io.BytesIO, row: dict[str, Any]) -> None:
            for path in self.truths:
                _refuse_null(row, path, 0)
            out.write(self.prefix)
            write(out, schema, row, strict_allow_default=True)

        return message_array(with_types(rows, _number_type), put)


def _refuse_null(value: Any, path: tuple[str, ...], depth: int) -> None:
    """Refuse a null where fastavro would write false.

    Raises:
        ValueError: the place of the null.
    """
    for index in range(depth, len(path)):
        if not value:
            # Nothing is in it, or it is null itself, at which fastavro fails.
            return
        if path[index] == _EACH:
            for each in value.values() if isinstance(value, dict) else value:
                _refuse_null(each, path, index + 1)
            return
        if path[index] not in value:
            return
        value = value[path[index]]
    if value is None:
        raise ValueError(f"{'.'.join(path)} is null, which its field in avro.schema cannot be")


@lru_cache(maxsize=16)
def _writer(schema: str) -> tuple[Any, Callable[..., None]]:
    library = load("fastavro", PACKAGE, "the format avro")
    parsed = library.parse_schema(json.loads(schema))
    named = parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {}
    for each in named.values():
        for field in each.get("fields", ()):
            if "default" in field:
                field["default"] = _default(field["default"], field["type"], named)
    return parsed, library.schemaless_writer


def _default(value: Any, wanted: Any, named: Mapping[str, Any]) -> Any:
    """A default as fastavro writes it: it takes no text for bytes, as which JSON has them.

    Args:
        value: by the schema.
        wanted: its type there.
        named: types of the schema that others refer to.

    Raises:
        ValueError: bytes have a character above U+00FF.
    """
    if isinstance(wanted, list):
        among = (_full(each, named) for each in wanted)
        wanted = next((each for each in among if each["type"] in _holding(value)), None)
        return value if wanted is None else _default(value, wanted, named)
    wanted = _full(wanted, named)
    kind = wanted["type"]
    if kind not in _holding(value):
        return value
    if kind in ("bytes", "fixed"):
        return value.encode("latin-1")
    if kind == "array":
        return [_default(each, wanted["items"], named) for each in value]
    if kind == "map":
        return {name: _default(each, wanted["values"], named) for name, each in value.items()}
    if kind == "record":
        types = {each["name"]: each["type"] for each in wanted["fields"]}
        return {
            name: _default(each, types[name], named) if name in types else each
            for name, each in value.items()
        }
    return value


def _holding(value: Any) -> tuple[str, ...]:
    """Types whose defaults are such a value in JSON, of those that are, or may hold, texts."""
    return next((found for kind, found in _OF_JSON.items() if isinstance(value, kind)), ())


def plan(
    schema: StructType, options: Mapping[str, str], topic: str | None, part: str
) -> AvroEncoder:
    """Derive Avro's schema, or check the one that is given, and register it if that is asked for.

    Args:
        schema: of the columns to be encoded.
        options: by their names in lower case; avro.schema is that of values.
        topic: of all rows, if it is one.
        part: "value" or "key".

    Raises:
        FormatError: a type, a name, the schema, or a library that is missing.

    Blocks: for the schema registry, if there is one.
    """
    refuse_types(schema, _fault, f"{part}.format=avro")
    given = options.get("avro.schema", "").strip() if part == "value" else ""
    text = given or json.dumps(_record(schema, _ROOT, ""))
    try:
        parsed, _ = _writer(text)
    except FormatError:
        raise
    except Exception as error:
        # Not JSON, or one of fastavro's own exceptions, which have no common base.
        raise FormatError(
            f"avro.schema is no schema of Avro's: {type(error).__name__}: {error}"
        ) from error
    if given:
        _check_fields(schema, parsed)
    truths = tuple(_truths(schema, parsed, parsed.get("__named_schemas", {})))
    return AvroEncoder(text, registered_prefix(options, topic, part, text, "AVRO"), truths)


def _check_fields(schema: StructType, parsed: Any) -> None:
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise FormatError("avro.schema must be a record: a row is one")
    wanted = {each["name"]: "default" in each for each in parsed["fields"]}
    unknown = [name for name in schema.fieldNames() if name not in wanted]
    if unknown:
        raise FormatError(
            f"avro.schema has no field for {', '.join(unknown)}; it has {', '.join(wanted)}: leave "
            f"the others out of value.columns"
        )
    for fault in _type_faults(schema, parsed, "", parsed.get("__named_schemas", {})):
        raise FormatError(fault)
    missing = [
        name
        for name, has_default in wanted.items()
        if not has_default and name not in schema.fieldNames()
    ]
    if missing:
        raise FormatError(
            f"avro.schema has fields without a default that are no columns: {', '.join(missing)}"
        )


def _type_faults(
    kind: DataType, wanted: Any, where: str, named: Mapping[str, Any]
) -> Iterator[str]:
    """Types of the schema that fastavro would fill with something else than what a column has.

    Args:
        kind: of the column, or of what is in it.
        wanted: by the schema.
        where: the column's path.
        named: types of the schema that others refer to.
    """
    if isinstance(wanted, list):
        yield from _union_faults(kind, wanted, where, named)
        return
    wanted = _full(wanted, named)
    told = _told(wanted)
    if told not in _FITTING.get(_class(kind), ()):
        yield (
            f"avro.schema: {where} is of type {told}, and its column of type "
            f"{kind.simpleString()}, which does not fit, or means something else: cast the "
            f"column, or change the schema"
        )
    elif isinstance(kind, ArrayType):
        yield from _type_faults(kind.elementType, wanted["items"], f"{where}.element", named)
    elif isinstance(kind, MapType) and told == "map":
        yield from _type_faults(kind.valueType, wanted["values"], f"{where}.value", named)
    elif isinstance(kind, MapType):
        for each in wanted["fields"]:
            yield from _type_faults(kind.valueType, each["type"], f"{where}.{each['name']}", named)
    elif isinstance(kind, StructType):
        types = {each["name"]: each["type"] for each in wanted.get("fields", ())}
        for field in kind.fields:
            inner = f"{where}.{field.name}".strip(".")
            if told == "map":
                yield from _type_faults(field.dataType, wanted["values"], inner, named)
            elif field.name in types:
                yield from _type_faults(field.dataType, types[field.name], inner, named)
            else:
                yield f"avro.schema has no field for {inner}: leave it out of the struct"


def _union_faults(
    kind: DataType, union: list[Any], where: str, named: Mapping[str, Any]
) -> Iterator[str]:
    fitting = _FITTING.get(_class(kind), ())
    among = (*_OF_A_UNION.get(_class(kind), ()), *fitting)
    full = [_full(each, named) for each in union]
    possible = [each for each in full if each["type"] in among or _told(each) in among]
    if not possible:
        types = ", ".join(map(_told, full))
        yield (
            f"avro.schema: {where} is one of {types}, and its column of type "
            f"{kind.simpleString()}, which is none of them: cast the column, or change the schema"
        )
        return
    faults = [list(_type_faults(kind, each, where, named)) for each in possible]
    # Of several records and maps fastavro takes one that has the value's own types.
    if isinstance(kind, (StructType, MapType)) and not all(faults):
        return
    yield from itertools.chain.from_iterable(faults)


def _truths(kind: DataType, wanted: Any, named: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Paths of the truth values outside of unions, in which fastavro itself finds nulls."""
    if isinstance(wanted, list):
        return
    wanted = _full(wanted, named)
    if wanted["type"] == "boolean":
        yield ()
    for step, inner, inner_wanted in _within(kind, wanted):
        for path in _truths(inner, inner_wanted, named):
            yield (step, *path)


def _within(kind: DataType, wanted: Mapping[str, Any]) -> Iterator[tuple[str, DataType, Any]]:
    """What a type holds: a step of a path, the column's type there, and the schema's."""
    is_map = wanted["type"] == "map"
    if isinstance(kind, ArrayType):
        yield _EACH, kind.elementType, wanted["items"]
    elif isinstance(kind, MapType) and is_map:
        yield _EACH, kind.valueType, wanted["values"]
    elif isinstance(kind, MapType):
        for each in wanted["fields"]:
            yield each["name"], kind.valueType, each["type"]
    elif isinstance(kind, StructType):
        types = {each["name"]: each["type"] for each in wanted.get("fields", ())}
        for field in kind.fields:
            yield field.name, field.dataType, wanted["values"] if is_map else types[field.name]


def _full(wanted: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """A type of the schema as a dict, where it may stand as a name."""
    given = wanted if isinstance(wanted, dict) else {"type": wanted}
    found: Mapping[str, Any] = named.get(given["type"], given)
    return found


def _told(wanted: Mapping[str, Any]) -> str:
    """Avro's name of a type; logical types that nobody knows mean nothing."""
    logical = wanted.get("logicalType")
    return str(logical if logical in _LOGICAL else wanted["type"])


def _class(kind: DataType) -> type[DataType]:
    """The class that the tables have: strings of a fixed length are strings."""
    return next((each for each in _FITTING if isinstance(kind, each)), type(kind))


def _fault(kind: DataType) -> str | None:
    if isinstance(kind, StructType):
        bad = [name for name in kind.fieldNames() if not _NAME.fullmatch(name)]
        return f"Avro has no field named {bad[0]!r}: rename it" if bad else None
    if isinstance(kind, MapType):
        if isinstance(kind.keyType, StringType):
            return None
        return "keys of Avro's maps are strings: cast them with transform_keys()"
    if isinstance(kind, (ArrayType, DecimalType, StringType)) or type(kind) in _SIMPLE:
        return None
    return "Avro has no type for it: cast it to a string, or leave it out"


def _record(schema: StructType, name: str, namespace: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}" if namespace else name
    for field in schema.fields:
        if not _NAME.fullmatch(field.name):
            raise FormatError(f"Avro has no field named {field.name!r}: rename the column")
    return {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "fields": [
            {"name": field.name, "type": _type(field.dataType, field.nullable, field.name, inner)}
            for field in schema.fields
        ],
    }


def _type(kind: DataType, is_nullable: bool, name: str, namespace: str) -> Any:
    found: Any
    if isinstance(kind, StructType):
        found = _record(kind, name, namespace)
    elif isinstance(kind, ArrayType):
        items = _type(kind.elementType, kind.containsNull, name, namespace)
        found = {"type": "array", "items": items}
    elif isinstance(kind, MapType):
        values = _type(kind.valueType, kind.valueContainsNull, name, namespace)
        found = {"type": "map", "values": values}
    elif isinstance(kind, DecimalType):
        found = {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    else:
        found = "string" if isinstance(kind, StringType) else _SIMPLE[type(kind)]
    return ["null", found] if is_nullable and found != "null" else found


def _number_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Of a date or time the number that it is, as Python's own types end with the year 9999."""
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.int64()
    return pyarrow.int32() if pyarrow.types.is_date32(kind) else kind
