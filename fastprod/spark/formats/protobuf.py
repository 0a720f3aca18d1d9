"""Protobuf by its own runtime, from a descriptor set: a Python object for each value."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.formats.library import load
from fastprod.spark.formats.message_rows import message_array
from fastprod.spark.formats.oneofs import oneofs_of
from fastprod.spark.formats.schema_registry import registered_prefix
from fastprod.spark.formats.types_of_batch import with_types

PACKAGE: Final = "protobuf>=6.31"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
# google.protobuf.descriptor.FieldDescriptor.CPPTYPE_*
_INT32, _INT64, _UINT32, _UINT64, _DOUBLE, _FLOAT, _BOOL, _ENUM, _STRING, _MESSAGE = range(1, 11)
_NAMES: Final = (
    "",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "double",
    "float",
    "bool",
    "enum",
    "string or bytes",
    "message",
)
_INTEGERS: Final = (_INT32, _INT64, _UINT32, _UINT64, _ENUM)
_TAKEN: Final[dict[type[DataType], tuple[int, ...]]] = {
    BooleanType: (_BOOL,),
    ByteType: _INTEGERS,
    ShortType: _INTEGERS,
    IntegerType: _INTEGERS,
    LongType: (_INT64, _UINT64),
    FloatType: (_FLOAT, _DOUBLE),
    DoubleType: (_DOUBLE,),
    StringType: (_STRING, _ENUM),
    BinaryType: (_STRING,),
}


@dataclass(frozen=True)
class ProtobufEncoder:
    """Rows as messages.

    Attributes:
        descriptors: a serialized FileDescriptorSet.
        message: the message's full name.
        prefix: what goes before each message.
    """

    descriptors: bytes
    message: str
    prefix: bytes = b""

    def encode(self, rows: pyarrow.RecordBatch) -> pyarrow.Array:
        """One message for each row; see `Encoder.encode`."""
        message_class = _message_class(self.descriptors, self.message)
        oneofs = oneofs_of(message_class.DESCRIPTOR, rows.schema)

        def put(out: io.BytesIO, row: dict[str, Any]) -> None:
            oneofs.check(row)
            message = message_class(**row)
            if not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors())
                raise ValueError(f"fields that are required have no value: {missing}")
            out.write(self.prefix)
            out.write(message.SerializeToString())

        return message_array(with_types(rows, _utc_type), put)


def _utc_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Of a time that in UTC: a message has no zone, and Arrow does not know all of Java's names."""
    if pyarrow.types.is_timestamp(kind) and kind.tz is not None:
        return pyarrow.timestamp(kind.unit, "+00:00")
    return kind


@lru_cache(maxsize=16)
def _message_class(descriptors: bytes, message: str) -> Any:
    factory = load("google.protobuf.message_factory", PACKAGE, "the format protobuf")
    return factory.GetMessageClass(_pool(descriptors).FindMessageTypeByName(message))


def _pool(descriptors: bytes) -> Any:
    files = load("google.protobuf.descriptor_pb2", PACKAGE, "the format protobuf")
    pools = load("google.protobuf.descriptor_pool", PACKAGE, "the format protobuf")
    found = files.FileDescriptorSet.FromString(descriptors)
    names = {each.name for each in found.file}
    pool = pools.DescriptorPool()
    # Of what protoc leaves out without --include_imports, its own files are available.
    for name in ("timestamp", "duration", "wrappers"):
        if f"google/protobuf/{name}.proto" not in names:
            module = load(f"google.protobuf.{name}_pb2", PACKAGE, "the format protobuf")
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for each in found.file:
        pool.Add(each)
    return pool


def plan(schema: StructType, options: Mapping[str, str], topic: str | None) -> ProtobufEncoder:
    """Find the message, and check that each column is one of its fields.

    Args:
        schema: of the columns to be encoded.
        options: by their names in lower case; protobuf.descriptor is the path, on the driver, of
            what ``protoc --include_imports --descriptor_set_out=PATH`` writes.
        topic: of all rows, if it is one.

    Raises:
        FormatError: an option, a column, or a library that is missing.

    Blocks: for the schema registry, if there is one.
    """
    path = options.get("protobuf.descriptor", "").strip()
    message = options.get("protobuf.message", "").strip()
    if not path or not message:
        raise FormatError(
            "value.format=protobuf needs protobuf.descriptor, the path of a descriptor set "
            "(protoc --include_imports --descriptor_set_out=PATH), and protobuf.message, the full "
            "name of a message in it"
        )
    try:
        descriptors = Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"protobuf.descriptor: cannot read {path}: {error.strerror}") from error
    try:
        descriptor = _message_class(descriptors, message).DESCRIPTOR
    except FormatError:
        raise
    except Exception as error:
        # KeyError, TypeError or DecodeError.
        raise FormatError(
            f"protobuf.message: {message} is not to be had from {path}: "
            f"{type(error).__name__}: {error}"
        ) from error
    for fault in _faults(schema, descriptor, ""):
        raise FormatError(fault)
    return ProtobufEncoder(descriptors, message, _prefix(descriptor, options, topic))


def _prefix(descriptor: Any, options: Mapping[str, str], topic: str | None) -> bytes:
    """The registry's prefix, then the message's indexes in its file, from the outermost on."""
    file = descriptor.file
    if options.get("schema.registry.url", "").strip() and file.dependencies:
        others = [each.name for each in file.dependencies if "google/protobuf/" not in each.name]
        if others:
            raise FormatError(
                f"{file.name} imports {', '.join(others)}, which schema.registry.url cannot "
                f"register here: put the messages into one file"
            )
    text = base64.b64encode(file.serialized_pb).decode("ascii")
    prefix = registered_prefix(options, topic, "value", text, "PROTOBUF")
    if not prefix:
        return b""
    indexes: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = outer.nested_types if outer else list(file.message_types_by_name.values())
        indexes.insert(0, next(i for i, each in enumerate(siblings) if each is descriptor))
        descriptor = outer
    if indexes == [0]:
        return prefix + b"\0"
    return prefix + b"".join(_zigzag(number) for number in [len(indexes), *indexes])


def _zigzag(number: int) -> bytes:
    number <<= 1
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _faults(schema: StructType, descriptor: Any, path: str) -> Iterator[str]:
    fields = descriptor.fields_by_name
    for column in schema.fields:
        where = f"{path}{column.name}"
        field = fields.get(column.name)
        if field is None:
            yield (
                f"message {descriptor.full_name} has no field for column {where!r}; it has "
                f"{', '.join(fields)}: rename the column, or leave it out of value.columns"
            )
        else:
            yield from _field_faults(column.dataType, field, where)


def _field_faults(kind: DataType, field: Any, where: str) -> Iterator[str]:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if isinstance(kind, MapType) and is_map:
        entry = field.message_type.fields_by_name
        yield from _single_faults(kind.keyType, entry["key"], f"{where}.key")
        if isinstance(kind.valueType, TimestampType):
            yield (
                f"column {where!r} is of type {kind.simpleString()}: protobuf's runtime takes no "
                f"times as values of a map; give structs of seconds and nanos in their place, by "
                f"transform_values()"
            )
        yield from _single_faults(kind.valueType, entry["value"], f"{where}.value")
    elif isinstance(kind, ArrayType) and field.is_repeated and not is_map:
        yield from _single_faults(kind.elementType, field, f"{where}.element")
    elif field.is_repeated or isinstance(kind, (MapType, ArrayType)):
        yield _mismatch(kind, field, where)
    else:
        yield from _single_faults(kind, field, where)


def _single_faults(kind: DataType, field: Any, where: str) -> Iterator[str]:
    if field.cpp_type == _MESSAGE:
        if isinstance(kind, StructType):
            yield from _faults(kind, field.message_type, f"{where}.")
        elif not isinstance(kind, TimestampType) or field.message_type.full_name != _TIMESTAMP:
            yield _mismatch(kind, field, where)
        return
    is_bytes = field.type == field.TYPE_BYTES
    if field.cpp_type not in _TAKEN.get(type(kind), ()) or (
        field.cpp_type == _STRING and is_bytes != isinstance(kind, BinaryType)
    ):
        yield _mismatch(kind, field, where)


def _mismatch(kind: DataType, field: Any, where: str) -> str:
    wanted = _NAMES[field.cpp_type]
    if field.message_type is not None:
        wanted = field.message_type.full_name
    repeated = "repeated " if field.is_repeated else ""
    return (
        f"column {where!r} is of type {kind.simpleString()}; the field {field.full_name} is "
        f"{repeated}{wanted}: cast the column"
    )
