"""Kafka's messages as plain mappings, from kio's schemas: the other side of every test.

It shares no code and no table with fastprod's own codec. kio's parser is not used: it aborts the
process when a damaged array length makes an allocation fail, and it refuses a response over one
unknown error code.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from kio.index import (
    UnknownAPIKey,
    UnknownEntity,
    load_request_schema,
    load_response_schema,
)

from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.api_keys import API_NAMES, API_VERSIONS
from support.oracle.frames import (
    FrameReader,
    FrameWriter,
    RequestHeader,
    response_reader,
)

Direction = Literal["request", "response"]

_NO_DEFAULT: Final = object()
_NULL_STRUCT: Final = -1

_READERS: Final[Mapping[str, Callable[[FrameReader], Any]]] = {
    "bool": FrameReader.boolean,
    "int8": FrameReader.int8,
    "int16": FrameReader.int16,
    "int32": FrameReader.int32,
    "int64": FrameReader.int64,
    "uint16": FrameReader.uint16,
    "uint32": FrameReader.uint32,
    "float64": FrameReader.float64,
    "uuid": FrameReader.uuid,
}
_WRITERS: Final[Mapping[str, Callable[[FrameWriter, Any], None]]] = {
    "bool": FrameWriter.boolean,
    "int8": FrameWriter.int8,
    "int16": FrameWriter.int16,
    "int32": FrameWriter.int32,
    "int64": FrameWriter.int64,
    "uint16": FrameWriter.uint16,
    "uint32": FrameWriter.uint32,
    "float64": FrameWriter.float64,
}
_ON_THE_WIRE: Final[Mapping[str, str]] = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
"""kio's richer types and the numbers they are on the wire: error codes, and times in ms."""


class _Field(NamedTuple):
    """One field of a message: what kio's dataclass says of it."""

    name: str
    kafka_type: str
    struct: _Layout | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any


class _Layout(NamedTuple):
    """A struct: its kio dataclass, its fields in wire order, its tagged fields by tag."""

    kind: Any
    flexible: bool
    fields: tuple[_Field, ...]
    tagged: Mapping[int, _Field]


def encode_request(
    api_key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    message: Mapping[str, Any],
) -> bytes:
    """The whole request frame: size prefix, header of the right version, body (contract P-G.9).

    Args:
        api_key: API key.
        version: version of the request, as ``pick_version`` chose it.
        correlation_id: int32.
        client_id: client id, or None.
        message: fields by kio's names, which are P-J.4's without a trailing ``_ms``. Structs are
            mappings, arrays sequences, UUIDs 16 bytes, times ms. A field with a default in
            kio's schema may be left out, and so may a UUID (zero).

    Raises:
        UnsupportedVersionError: kio has no such request.
        ValueError: a field is unknown, missing, or does not fit; the text names API and field.
    """
    layout = _layout(api_key, version, "request")
    body = _body(layout, api_key, version, message)
    return body.request(api_key, version, correlation_id, client_id, flexible=layout.flexible)


def decode_response(api_key: int, version: int, payload: bytes) -> tuple[int, Any]:
    """Decode a response without its size prefix.

    Trailing bytes and unknown tagged fields are skipped (P-J.1.1, P-J.1.4).

    Returns:
        (correlation id, message): a frozen dataclass with the field names of ``encode_request``.

    Raises:
        UnsupportedVersionError: kio has no such response.
        SchemaError: the frame is not what its version promises (P-J.1.5).
    """
    layout = _layout(api_key, version, "response")
    correlation_id, reader = response_reader(
        payload,
        f"{_name(api_key)} response v{version}",
        header_tags=_has_header_tags(api_key, layout),
    )
    return correlation_id, _read_struct(reader, layout)


def request_header(payload: bytes) -> RequestHeader:
    """The header of a request without its size prefix, whatever its API and version.

    Raises:
        SchemaError: the frame ends inside the header.
    """
    return FrameReader(payload, "request header").request_header()


def decode_request(payload: bytes) -> tuple[RequestHeader, Any]:
    """Decode a request without its size prefix, as a server does.

    Returns:
        (header, message): a frozen dataclass with the field names of ``encode_request``.

    Raises:
        UnsupportedVersionError: kio has no such request; ``request_header`` reads its header.
        SchemaError: the frame is not what its version promises.
    """
    reader = FrameReader(payload, "request")
    header = reader.request_header()
    layout = _layout(header.api_key, header.version, "request")
    if layout.flexible:
        reader.skip_tags()
    return header, _read_struct(reader, layout)


def encode_response(
    api_key: int, version: int, correlation_id: int, message: Mapping[str, Any]
) -> bytes:
    """The whole response frame, size prefix included, as a server sends it.

    Args and raises: as ``encode_request``.
    """
    layout = _layout(api_key, version, "response")
    body = _body(layout, api_key, version, message)
    return body.response(correlation_id, header_tags=_has_header_tags(api_key, layout))


def _has_header_tags(api_key: int, layout: _Layout) -> bool:
    # ApiVersions answers carry the oldest header, because the client does not yet know what the
    # broker speaks (KIP-511, contract P-G.5.2).
    return layout.flexible and api_key != API_VERSIONS


def _name(api_key: int) -> str:
    return API_NAMES.get(api_key, f"API {api_key}")


@functools.cache
def _layout(api_key: int, version: int, direction: Direction) -> _Layout:
    load = load_request_schema if direction == "request" else load_response_schema
    try:
        return _struct_layout(load(api_key, version))
    except (UnknownAPIKey, UnknownEntity) as error:
        raise UnsupportedVersionError(
            f"{_name(api_key)} {direction} of version {version} has no schema here"
        ) from error


def _struct_layout(kind: Any) -> _Layout:
    fields = [_field(field) for field in dataclasses.fields(kind)]
    tagged = {field.tag: field for field in fields if field.tag is not None}
    return _Layout(
        kind,
        kind.__flexible__,
        tuple([field for field in fields if field.tag is None]),
        dict(sorted(tagged.items())),
    )


def _field(field: dataclasses.Field[Any]) -> _Field:
    alternatives = [field.type] if get_origin(field.type) is tuple else list(get_args(field.type))
    nullable = type(None) in alternatives
    kind: Any = next((a for a in alternatives if a is not type(None)), field.type)
    is_array = get_origin(kind) is tuple
    item: Any = get_args(kind)[0] if is_array else kind
    struct = _struct_layout(item) if dataclasses.is_dataclass(item) else None
    kafka_type = "struct" if struct else field.metadata["kafka_type"]
    return _Field(
        field.name,
        _ON_THE_WIRE.get(kafka_type, kafka_type),
        struct,
        is_array,
        nullable,
        field.metadata.get("tag"),
        _default(field, kafka_type, is_array),
    )


def _default(field: dataclasses.Field[Any], kafka_type: str, is_array: bool) -> Any:
    """The value of a field that is left out, as ``_write`` takes it."""
    if kafka_type == "uuid" and not is_array:
        return bytes(16)
    if field.default is dataclasses.MISSING:
        return _NO_DEFAULT
    if kafka_type == "datetime_i64":
        return -1
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return round(field.default.total_seconds() * 1000)
    return field.default


def _read_struct(reader: FrameReader, layout: _Layout) -> Any:
    values = {field.name: _read(reader, field, layout.flexible) for field in layout.fields}
    if layout.flexible:
        for field in layout.tagged.values():
            values[field.name] = field.default
        for tag, value in reader.tags():
            tagged = layout.tagged.get(tag)
            if tagged is not None:
                values[tagged.name] = _read(value, tagged, True)
    return layout.kind(**values)


def _read(reader: FrameReader, field: _Field, flexible: bool) -> Any:
    if not field.is_array:
        return _read_item(reader, field, flexible, field.nullable)
    count = reader.count(flexible)
    if count < 0:
        if not field.nullable:
            raise reader.error(f"null array {field.name}")
        return None
    return tuple([_read_item(reader, field, flexible, False) for _ in range(count)])


def _read_item(reader: FrameReader, field: _Field, flexible: bool, nullable: bool) -> Any:
    if field.struct is not None:
        if nullable and reader.int8() == _NULL_STRUCT:
            return None
        return _read_struct(reader, field.struct)
    if field.kafka_type == "string":
        return reader.nullable_string(flexible) if nullable else reader.string(flexible)
    if field.kafka_type in ("bytes", "records"):
        value = reader.nullable_bytes(flexible)
        if value is None and not nullable:
            raise reader.error(f"null in place of {field.name}")
        return value
    return _READERS[field.kafka_type](reader)


def _body(layout: _Layout, api_key: int, version: int, message: Mapping[str, Any]) -> FrameWriter:
    writer = FrameWriter()
    try:
        _write_struct(writer, layout, message)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{_name(api_key)} v{version}: {error}") from error
    return writer


def _write_struct(writer: FrameWriter, layout: _Layout, message: Any) -> None:
    if not isinstance(message, Mapping):
        # A default of a struct is an instance of kio's dataclass.
        message = {field.name: getattr(message, field.name) for field in _all_fields(layout)}
    unknown = set(message) - {field.name for field in _all_fields(layout)}
    if unknown:
        raise ValueError(f"no field {', '.join(sorted(unknown))}")
    for field in layout.fields:
        value = message.get(field.name, field.default)
        if value is _NO_DEFAULT:
            raise ValueError(f"field {field.name} is missing")
        _write(writer, field, layout.flexible, value)
    if layout.flexible:
        _write_tags(writer, layout, message)


def _all_fields(layout: _Layout) -> tuple[_Field, ...]:
    return (*layout.fields, *layout.tagged.values())


def _write_tags(writer: FrameWriter, layout: _Layout, message: Mapping[str, Any]) -> None:
    # A tagged field that equals its default is left out (P-J.1.2).
    present = [
        (tag, field, message[field.name])
        for tag, field in layout.tagged.items()
        if field.name in message and message[field.name] != field.default
    ]
    writer.uvarint(len(present))
    for tag, field, value in present:
        encoded = FrameWriter()
        _write(encoded, field, True, value)
        data = encoded.body()
        writer.uvarint(tag)
        writer.uvarint(len(data))
        writer.raw(data)


def _write(writer: FrameWriter, field: _Field, flexible: bool, value: Any) -> None:
    try:
        if not field.is_array:
            _write_item(writer, field, flexible, field.nullable, value)
            return
        if value is None and not field.nullable:
            raise ValueError("null array")
        writer.count(None if value is None else len(value), flexible)
        for item in value or ():
            _write_item(writer, field, flexible, False, item)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{field.name}: {error}") from error


def _write_item(
    writer: FrameWriter, field: _Field, flexible: bool, nullable: bool, value: Any
) -> None:
    if field.struct is not None:
        if nullable:
            writer.int8(_NULL_STRUCT if value is None else 1)
        if value is not None or not nullable:
            _write_struct(writer, field.struct, value)
    elif field.kafka_type == "uuid":
        writer.uuid(value)
    elif value is None and not nullable:
        raise ValueError("null")
    elif field.kafka_type == "string":
        writer.string(value, flexible)
    elif field.kafka_type in ("bytes", "records"):
        writer.octets(value, flexible)
    else:
        _WRITERS[field.kafka_type](writer, value)
