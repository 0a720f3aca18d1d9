"""Random Kafka messages, twice: as plain values for fastprod.protocol, and as kio's own objects.

The bytes come from kio's writers, which share no code with fastprod's.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import math
import random
import uuid
from collections.abc import Callable
from typing import Any, get_args, get_origin

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

_INT = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TIMES = {"timedelta_i32": 31, "timedelta_i64": 40}

NULLS = 0.2
"""The share of nulls where there can be one."""

Pair = tuple[Any, Any]
"""(plain value, kio's value)."""

_Make = Callable[[random.Random], Pair]

_ERROR_CODES = tuple(ErrorCode)
# Of one to four bytes in UTF-8.
_CHARACTERS: tuple[Callable[[random.Random], int], ...] = (
    lambda chance: chance.randint(0, 0x7F),
    lambda chance: chance.randint(0x80, 0x7FF),
    lambda chance: chance.randint(0x800, 0xD7FF),
    lambda chance: chance.randint(0x10000, 0x10FFFF),
)


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
    """(mapping of plain values, kio object) for one of kio's dataclasses.

    Each is made from one number: a message has hundreds of values, and to have Hypothesis draw them
    one by one takes ten times as long.
    """
    make = _message(kind)
    return st.integers(0, 2**64 - 1).map(lambda seed: make(random.Random(seed)))


def plain(value: Any) -> Any:
    """A decoded message as plain values, so that it compares with the first of a pair."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value


@functools.cache
def _message(kind: Any) -> _Make:
    makers = [(field.name, _field(field)) for field in dataclasses.fields(kind)]

    def make(chance: random.Random) -> Pair:
        pairs = [(name, value(chance)) for name, value in makers]
        return (
            {name: plain for name, (plain, _) in pairs},
            kind(**{name: rich for name, (_, rich) in pairs}),
        )

    return make


def _field(field: dataclasses.Field[Any]) -> _Make:
    annotation: Any = field.type
    nullable = get_origin(annotation) is not tuple and type(None) in get_args(annotation)
    if nullable:
        annotation = next(a for a in get_args(annotation) if a is not type(None))
    kafka_type = field.metadata.get("kafka_type", "")
    if get_origin(annotation) is tuple:
        make = _items(_item(get_args(annotation)[0], kafka_type))
    else:
        make = _item(annotation, kafka_type)
    if not nullable or kafka_type == "uuid":
        return make
    # kio's None stands for -1 where a time can be missing.
    null = (-1 if kafka_type == "datetime_i64" else None, None)
    return lambda chance: null if chance.random() < NULLS else make(chance)


def _items(make: _Make) -> _Make:
    def items(chance: random.Random) -> Pair:
        pairs = [make(chance) for _ in range(chance.randint(0, 3))]
        return tuple(plain for plain, _ in pairs), tuple(rich for _, rich in pairs)

    return items


def _item(annotation: Any, kafka_type: str) -> _Make:
    if dataclasses.is_dataclass(annotation):
        kind: Any = annotation
        return _message(kind)
    if kafka_type in _INT:
        limit = 1 << (_INT[kafka_type] - 1)
        return _same(lambda chance: _number(chance, -limit, limit - 1))
    if kafka_type in _TIMES:
        limit = 1 << _TIMES[kafka_type]
        return lambda chance: _time(_number(chance, 0, limit - 1))
    return _MAKERS[kafka_type]


def _number(chance: random.Random, low: int, high: int) -> int:
    """Any from `low` to `high`, often one of the ends, or a small one."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice((low, high, 0))
    return (
        chance.randint(max(low, -300), min(high, 300)) if kind == 1 else chance.randint(low, high)
    )


def _float(chance: random.Random) -> float:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice((0.0, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308))
    return (
        chance.uniform(-1e3, 1e3)
        if kind == 1
        else chance.uniform(-1, 1) * 10.0 ** chance.randint(-300, 300)
    )


def _text(chance: random.Random) -> str:
    return "".join(
        map(chr, (chance.choice(_CHARACTERS)(chance) for _ in range(chance.randint(0, 5))))
    )


def _uuid(chance: random.Random) -> Pair:
    """kio's zero is None."""
    raw = bytes(16) if chance.random() < NULLS else chance.randbytes(16)
    return raw, uuid.UUID(bytes=raw) if any(raw) else None


def _time(ms: int) -> Pair:
    return ms, datetime.timedelta(milliseconds=ms)


def _date(chance: random.Random) -> Pair:
    ms = _number(chance, 0, 2**41)
    return ms, datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def _error_code(chance: random.Random) -> Pair:
    code = chance.choice(_ERROR_CODES)
    return int(code), code


def _same(make: Callable[[random.Random], Any]) -> _Make:
    def pair(chance: random.Random) -> Pair:
        value = make(chance)
        return value, value

    return pair


def _bytes(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(0, 5))


_MAKERS: dict[str, _Make] = {
    "float64": _same(_float),
    "bool": _same(lambda chance: chance.random() < 0.5),
    "string": _same(_text),
    "bytes": _same(_bytes),
    "records": _same(_bytes),
    "error_code": _error_code,
    "uuid": _uuid,
    "datetime_i64": _date,
}
