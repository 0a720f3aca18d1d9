"""Oneofs: fields of protobuf messages of which one at most may have a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow


@dataclass(frozen=True)
class Oneofs:
    """The oneofs of a message, and of the messages in it.

    Of two values of a oneof protobuf's runtime keeps the last, without a word.

    Attributes:
        groups: names of the columns, or fields of a struct, that are of one oneof.
        inner: the oneofs of the messages that a field holds, by its name.
        maps: those fields of `inner` that are maps.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    inner: Mapping[str, Oneofs] | None = None
    maps: frozenset[str] = frozenset()

    def check(self, row: Mapping[str, Any], path: str = "") -> None:
        """Refuse a row with two values of a oneof.

        Args:
            row: values by the fields' names.
            path: of the message, with a dot at its end.

        Raises:
            ValueError: which fields.
        """
        for names in self.groups:
            held = [f"{path}{name}" for name in names if row[name] is not None]
            if len(held) > 1:
                raise ValueError(f"{' and '.join(held)} are of one oneof, and none is null")
        for name, oneofs in (self.inner or {}).items():
            for message in self._messages(name, row[name]):
                # The runtime tells of a null among the elements of an array or a map.
                if message is not None:
                    oneofs.check(message, f"{path}{name}.")

    def _messages(self, name: str, value: Any) -> Iterable[Any]:
        if value is None:
            return ()
        if name in self.maps:
            found: Iterable[Any] = value.values()
            return found
        return value if isinstance(value, list) else (value,)


def oneofs_of(descriptor: Any, fields: Iterable[pyarrow.Field]) -> Oneofs:
    """Find the oneofs of which two fields or more can have a value.

    Args:
        descriptor: of the message.
        fields: the columns, or the fields of a struct, each of which is a field of the message.
    """
    types = {each.name: each.type for each in fields}
    found = [tuple(each.name for each in oneof.fields) for oneof in descriptor.oneofs]
    among = [tuple(name for name in names if name in types) for names in found]
    inner = {}
    for name, kind in types.items():
        struct = _struct_in(kind)
        if struct is not None:
            message = descriptor.fields_by_name[name].message_type
            if pyarrow.types.is_map(kind):
                message = message.fields_by_name["value"].message_type
            oneofs = oneofs_of(message, struct)
            if oneofs.groups or oneofs.inner:
                inner[name] = oneofs
    maps = frozenset(name for name in inner if pyarrow.types.is_map(types[name]))
    return Oneofs(tuple(names for names in among if len(names) > 1), inner, maps)


def _struct_in(kind: pyarrow.DataType) -> pyarrow.StructType | None:
    """The struct that a type is, or of which an array or a map is; None: it is none."""
    types = pyarrow.types
    if types.is_map(kind):
        kind = kind.item_type
    elif types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    return kind if types.is_struct(kind) else None
