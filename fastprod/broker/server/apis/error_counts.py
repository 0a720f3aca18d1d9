"""How often an answer holds each error code, for `ErrorsPerSec` (B-A9)."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fastprod.protocol.schema import Array, FieldType, Struct, fields_of


class _Plan(NamedTuple):
    """Where codes are in a message: its own, and those of what it lists."""

    has_code: bool
    lists: tuple[str, ...]


def error_counts(response: Any, version: int) -> dict[int, int]:
    """Return error code -> how often `response` holds it, in all of its topics and partitions."""
    counts: dict[int, int] = {}
    _count(response, version, counts)
    return counts


def _count(message: Any, version: int, counts: dict[int, int]) -> None:
    kind: type = type(message)
    plan = _plan(kind, version)
    if plan.has_code:
        code = message.error_code
        counts[code] = counts.get(code, 0) + 1
    for name in plan.lists:
        for each in getattr(message, name) or ():
            _count(each, version, counts)


@cache
def _plan(kind: type, version: int) -> _Plan:
    rows = [row for row in fields_of(kind) if row.first <= version <= row.last]
    lists = tuple(row.name for row in rows if _lists_codes(row.type, version))
    return _Plan(any(row.name == "error_code" for row in rows), lists)


def _lists_codes(kind: FieldType, version: int) -> bool:
    if not isinstance(kind, Array) or not isinstance(kind.item, Struct):
        return False
    return _plan(kind.item.kind, version) != _NO_CODES


_NO_CODES = _Plan(False, ())
