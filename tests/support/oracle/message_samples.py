"""All messages for tests: which there are, and objects of them without a codec."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastprod.protocol import messages
from fastprod.protocol.api import Api
from fastprod.protocol.schema import (
    BOOL,
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    FieldType,
    Schema,
    Struct,
    fields_of,
)


def _all_apis() -> Iterator[Api[Any, Any]]:
    for module in pkgutil.walk_packages(messages.__path__, f"{messages.__name__}."):
        if not module.ispkg:
            yield importlib.import_module(module.name).API


APIS = {api.key: api for api in sorted(_all_apis(), key=lambda api: api.key)}
"""Every API that there is a file for."""


class Case(NamedTuple):
    """One message in one version."""

    api_key: int
    direction: str
    version: int

    def __str__(self) -> str:
        return f"{APIS[self.api_key].name}-{self.direction}-v{self.version}"

    @property
    def schema(self) -> Schema[Any]:
        api = APIS[self.api_key]
        return api.request if self.direction == "request" else api.response

    def encoded(self, value: Any) -> bytes:
        return b"".join(self.schema.encode(self.version, value))

    def decoded(self, data: bytes) -> Any:
        return self.schema.decode(self.version, memoryview(bytearray(data)))


CASES = [
    Case(api.key, direction, version)
    for api in APIS.values()
    for version in range(api.versions[0], api.versions[1] + 1)
    for direction in ("request", "response")
]


def present(row: Field, version: int) -> bool:
    return row.first <= version <= row.last


def sample(case: Case) -> Any:
    """A message in which every field that the version has differs from its default.

    Lists have two items; a nullable field is null in the second of them.
    """
    return _struct(case.schema.kind, case.version, itertools.count(1), False)


def _struct(kind: type, version: int, numbers: Iterator[int], with_null: bool) -> Any:
    return kind(
        **{
            row.name: None
            if with_null and row.is_nullable(version)
            else _value(row.type, version, numbers)
            for row in fields_of(kind)
            if present(row, version)
        }
    )


def _value(kind: FieldType, version: int, numbers: Iterator[int]) -> Any:
    if isinstance(kind, Struct):
        return _struct(kind.kind, version, numbers, False)
    if isinstance(kind, Array):
        item = kind.item
        if isinstance(item, Struct):
            return [_struct(item.kind, version, numbers, last) for last in (False, True)]
        found = [_value(item, version, numbers) for _ in range(2)]
        return tuple(found) if kind.as_tuple else found
    number = next(numbers)
    if kind is BOOL:
        return number % 2 == 0
    if kind is STRING:
        return f"text-{number}"
    if kind is UUID:
        return bytes([number]) * 16
    if kind in (BYTES, RECORDS):
        return memoryview(b"r" * number)
    return number


def from_plain(kind: type, values: Mapping[str, Any]) -> Any:
    """A message of plain values (dicts, tuples), which may leave the unit off a name."""
    rows = {row.name: row for row in fields_of(kind)}
    given = {name if name in rows else f"{name}_ms": value for name, value in values.items()}
    return kind(**{name: _from_plain(rows[name].type, value) for name, value in given.items()})


def _from_plain(kind: FieldType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, Struct):
        return from_plain(kind.kind, value)
    if isinstance(kind, Array):
        found = [_from_plain(kind.item, item) for item in value]
        return tuple(found) if kind.as_tuple else found
    return value
