"""Random Kafka messages, twice: as plain values for fastprod.protocol, and as kio's own objects.

The bytes come from kio's writers, which share no code with fastprod's.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from typing import Any, get_args, get_origin

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

_INT = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TIMES = {"timedelta_i32": 31, "timedelta_i64": 40}

Pair = tuple[Any, Any]
"""(plain value, kio's value)."""


def schema(api_key: int, version: int, direction: str) -> Any:
    """kio's dataclass of one message."""
    load = load_request_schema if direction == "request" else load_response_schema
    return load(api_key, version)


def encoded(message: Any) -> bytes:
    """The body of a message, by kio."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def messages(kind: Any) -> st.SearchStrategy[Pair]:
    """(mapping of plain values, kio object) for one of kio's dataclasses."""
    names = [field.name for field in dataclasses.fields(kind)]
    values = st.tuples(*[_field(field) for field in dataclasses.fields(kind)])
    return values.map(
        lambda pairs: (
            {name: plain for name, (plain, _) in zip(names, pairs, strict=True)},
            kind(**{name: rich for name, (_, rich) in zip(names, pairs, strict=True)}),
        )
    )


def plain(value: Any) -> Any:
    """A decoded message as plain values, so that it compares with the first of a pair."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value


def _field(field: dataclasses.Field[Any]) -> st.SearchStrategy[Pair]:
    annotation: Any = field.type
    nullable = get_origin(annotation) is not tuple and type(None) in get_args(annotation)
    if nullable:
        annotation = next(a for a in get_args(annotation) if a is not type(None))
    kafka_type = field.metadata.get("kafka_type", "")
    if get_origin(annotation) is tuple:
        values: st.SearchStrategy[Pair] = st.lists(
            _item(get_args(annotation)[0], kafka_type), max_size=3
        ).map(lambda pairs: (tuple(p for p, _ in pairs), tuple(r for _, r in pairs)))
    else:
        values = _item(annotation, kafka_type)
    if nullable and kafka_type != "uuid":
        # kio's None stands for -1 where a time can be missing.
        values = values | st.just((-1 if kafka_type == "datetime_i64" else None, None))
    return values


def _item(annotation: Any, kafka_type: str) -> st.SearchStrategy[Pair]:
    if dataclasses.is_dataclass(annotation):
        return messages(annotation)
    if kafka_type in _INT:
        limit = 1 << (_INT[kafka_type] - 1)
        return _same(st.integers(-limit, limit - 1))
    if kafka_type == "float64":
        return _same(st.floats(allow_nan=False))
    if kafka_type == "bool":
        return _same(st.booleans())
    if kafka_type == "string":
        return _same(st.text(max_size=5))
    if kafka_type in ("bytes", "records"):
        return _same(st.binary(max_size=5))
    if kafka_type == "error_code":
        return st.sampled_from(ErrorCode).map(lambda code: (int(code), code))
    if kafka_type == "uuid":
        # kio's zero is None.
        return st.binary(min_size=16, max_size=16).map(
            lambda raw: (raw, uuid.UUID(bytes=raw) if any(raw) else None)
        )
    if kafka_type in _TIMES:
        return st.integers(0, (1 << _TIMES[kafka_type]) - 1).map(
            lambda ms: (ms, datetime.timedelta(milliseconds=ms))
        )
    if kafka_type == "datetime_i64":
        return st.integers(0, 2**41).map(
            lambda ms: (ms, datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC))
        )
    raise NotImplementedError(kafka_type)


def _same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    return values.map(lambda value: (value, value))
