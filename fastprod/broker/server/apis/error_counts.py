"""How often an answer holds each error code, for `ErrorsPerSec` (B-A9)."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fastprod.protocol.schema import Array, FieldType, Struct, fields_of


class _Plan(NamedTuple):
    """Where codes are in a message: its own, and those of what it lists.

    Attributes:
        has_code: whether it has one itself.
        lists: fields that list what has codes in turn.
        leaf_lists: fields that list what has a code and nothing else to count, as partitions do.
    """

    has_code: bool
    lists: tuple[str, ...]
    leaf_lists: tuple[str, ...]


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
    for name in plan.leaf_lists:
        for each in getattr(message, name) or ():
            code = each.error_code
            counts[code] = counts.get(code, 0) + 1


@cache
def _plan(kind: type, version: int) -> _Plan:
    rows = [row for row in fields_of(kind) if row.first <= version <= row.last]
    listed = {row.name: _plan_of_items(row.type, version) for row in rows}
    leaves = tuple(name for name, plan in listed.items() if plan == _ONE_CODE)
    others = tuple(name for name, plan in listed.items() if plan not in (_ONE_CODE, _NO_CODES))
    return _Plan(any(row.name == "error_code" for row in rows), others, leaves)


def _plan_of_items(kind: FieldType, version: int) -> _Plan:
    if not isinstance(kind, Array) or not isinstance(kind.item, Struct):
        return _NO_CODES
    return _plan(kind.item.kind, version)


_NO_CODES = _Plan(False, (), ())
_ONE_CODE = _Plan(True, (), ())
