"""Kafka's messages as tables: a class whose fields say how they are encoded.

    @message
    class FetchTopic:
        topic: str = field(STRING, "0-12")
        topic_id: bytes = field(UUID, "13+")
        partitions: list[FetchPartition] = field(Array(FetchPartition))

A class compiles once a version to two closures, one that reads and one that writes. Reading trusts
no length: a size or count that the rest of the frame cannot hold is refused before anything is
made or looped over. Names, types, versions and defaults are those of Kafka's message definitions;
compact forms and tagged fields are KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar, dataclass_transform

from fastprod.protocol.field_types import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Codec,
    FieldType,
    Form,
    Output,
    Read,
    ReadMany,
    SchemaError,
    View,
    Write,
    count_from_none,
    count_items,
    lengths,
)
from fastprod.protocol.message_class import Field, message_class, tuple_class
from fastprod.protocol.struct_type import Struct, fields_of, skip_tags

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "RECORDS",
    "STRING",
    "UINT16",
    "UINT32",
    "UUID",
    "Array",
    "Codec",
    "Field",
    "FieldType",
    "Form",
    "Schema",
    "SchemaError",
    "SharedList",
    "Struct",
    "field",
    "fields_of",
    "message",
    "skip_tags",
    "tuple_message",
]

M = TypeVar("M")

_MAX_VERSION = 0x7FFF
_REQUIRED: Any = object()


class SharedList(list[Any]):
    """A list that stands in many messages: it is written once, and its bytes from then on.

    It must not change. Threads may share it.
    """

    __slots__ = ("_written",)

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        self._written: dict[Any, bytes] = {}

    def write(self, out: Output, write_item: Callable[[Output, Any], None]) -> None:
        """Write all items by `write_item`, as the version has it."""
        data = self._written.get(write_item)
        if data is None:
            fresh = Output()
            for value in self:
                write_item(fresh, value)
            data = self._written[write_item] = b"".join(fresh.parts())
        out += data


class Array:
    """A list of one type, or of one message class.

    Args:
        item: of what.
        as_tuple: it is read as a tuple; for numbers and their like.
    """

    def __init__(self, item: FieldType | type, *, as_tuple: bool = False) -> None:
        self.item = as_type(item)
        self.as_tuple = as_tuple

    def default(self) -> Sequence[Any]:
        return () if self.as_tuple else []

    def codec(self, form: Form, is_nullable: bool) -> Codec:
        length = lengths("i", form.is_flexible, is_nullable)
        item = self.item.codec(form, False)
        read_length, write_length, min_bytes = length
        if item.code:
            return Codec(
                _numbers_reader(form, read_length, item, self.as_tuple),
                _numbers_writer(write_length, item),
                min_bytes,
            )
        read_many, item_bytes, is_counted = item.read_many, item.min_bytes, form.is_counted
        if read_many is None:
            read_many = _one_by_one(item.read)
        write_item = item.write

        def read(view: View, at: int) -> tuple[list[Any] | None, int]:
            count, at = read_length(view, at)
            if count < 0:
                return None, at
            _check_room(view, at, count, item_bytes, is_counted)
            return read_many(view, at, count)

        def write(out: Output, values: Sequence[Any] | None) -> None:
            if values is None:
                write_length(out, -1)
                return
            write_length(out, len(values))
            if type(values) is SharedList:
                values.write(out, write_item)
                return
            for value in values:
                write_item(out, value)

        return Codec(read, write, min_bytes)


def _check_room(view: View, at: int, count: int, item_bytes: int, is_counted: bool) -> None:
    """Refuse a count that the rest of the frame cannot hold."""
    left = len(view) - at
    if count * item_bytes > left:
        raise SchemaError(
            f"{count} items stated, of at least {item_bytes} bytes each; {left} bytes left"
        )
    if is_counted:
        count_items(count, left)


def _one_by_one(read: Read) -> ReadMany:
    def read_many(view: View, at: int, count: int) -> tuple[list[Any], int]:
        items = []
        for _ in range(count):
            value, at = read(view, at)
            items.append(value)
        return items, at

    return read_many


_FEW = 32
"""Compact lists of fewer numbers have a layout each: a message may have thousands of them."""


@cache
def _few_layouts(code: str) -> list[tuple[Callable[[View, int], tuple[Any, ...]], int]]:
    """By the byte that is the count and one more, which is read too; none is for null."""
    layouts = [struct.Struct(f">x{count}{code}") for count in range(_FEW)]
    return [(layout.unpack_from, layout.size) for layout in [layouts[0], *layouts]]


def _numbers_reader(
    form: Form,
    read_length: Callable[[View, int], tuple[int, int]],
    item: Codec,
    as_tuple: bool,
) -> Read:
    item_bytes, code, is_counted = item.min_bytes, item.code, form.is_counted

    def read(view: View, at: int) -> tuple[Sequence[Any] | None, int]:
        count, at = read_length(view, at)
        if count < 0:
            return None, at
        _check_room(view, at, count, item_bytes, is_counted)
        values = struct.unpack_from(f">{count}{code}", view, at)
        return values if as_tuple else list(values), at + count * item_bytes

    if is_counted or not form.is_flexible:
        return read

    few = _few_layouts(code)

    def read_few(view: View, at: int) -> tuple[Sequence[Any] | None, int]:
        if not 0 < view[at] <= _FEW:
            return read(view, at)
        unpack, size = few[view[at]]
        try:
            values = unpack(view, at)
        except struct.error:
            return read(view, at)
        return values if as_tuple else list(values), at + size

    return read_few


def _numbers_writer(write_length: Callable[[Output, int], None], item: Codec) -> Write:
    code = item.code

    def write(out: Output, values: Sequence[Any] | None) -> None:
        if values is None:
            write_length(out, -1)
            return
        write_length(out, len(values))
        out += struct.pack(f">{len(values)}{code}", *values)

    return write


@cache
def _versions(text: str) -> tuple[int, int]:
    """The first and the last version of "3+", "3-12" or "3"."""
    first, dash, last = text.partition("-")
    if dash:
        return int(first), int(last)
    return int(first.rstrip("+")), _MAX_VERSION if first.endswith("+") else int(first)


def field(
    kind: FieldType | type,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Any = _REQUIRED,
    tag: int | None = None,
) -> Any:
    """Declare a field of a `message`.

    Args:
        kind: a type of this module, or a message class.
        versions: where it exists: "3+", "3-12" or "3". Elsewhere it is neither read nor written.
        nullable: versions in which it may be null; default: none.
        default: its value if it is not given or not read; default: what Kafka takes for the type:
            0, False, empty, a zero id, a struct of defaults.
        tag: its number as a tagged field; default: an ordinary field.
    """
    field_type = as_type(kind)
    make = field_type.default if default is _REQUIRED else lambda: default
    is_list = isinstance(field_type, Array) and not field_type.as_tuple
    has_own_default = default is _REQUIRED and (is_list or isinstance(field_type, Struct))
    null_range = _versions(nullable) if nullable is not None else (1, 0)
    return Field(field_type, _versions(versions), null_range, tag, make, has_own_default)


@dataclass_transform(kw_only_default=True)
def message(kind: type[M]) -> type[M]:
    """Make a class whose attributes are all `field`s a message, or a struct inside one.

    It gets slots, a constructor with keyword arguments and defaults, `==` and `repr`.
    """
    return message_class(kind)


def tuple_message(kind: type[M]) -> type[M]:
    """Make a NamedTuple whose defaults are all `field`s a struct inside a message.

    For what is read by the thousand, kept and compared. It has no tagged fields.
    """
    return tuple_class(kind)  # type: ignore[no-any-return]


def as_type(kind: FieldType | type) -> FieldType:
    """A field type as it is; a message class as a struct."""
    return Struct(kind) if isinstance(kind, type) else kind


class Schema(Generic[M]):
    """One message in all its versions.

    Any thread. A version is compiled when it is first used.

    Args:
        kind: the message's class.
        flexible_from: first version with compact forms and tagged fields; None: none has them.
        is_counted: see `Form`; for what a server reads.
    """

    def __init__(
        self, kind: type[M], flexible_from: int | None, *, is_counted: bool = False
    ) -> None:
        self.kind = kind
        self.flexible_from = _MAX_VERSION + 1 if flexible_from is None else flexible_from
        self._is_counted = is_counted
        self._compiled: dict[int, Codec] = {}

    def decode(self, version: int, view: View, offset: int = 0) -> M:
        """Read the message that takes up `view` from `offset` to its end.

        Of a memoryview, which is of format B, records are slices; those of a writable one are
        writable. Absent fields have their defaults.

        Raises:
            SchemaError: the bytes are damaged, or go on behind the message.
        """
        value, end = self._read(version, view, offset)
        if end != len(view):
            raise SchemaError(f"{len(view) - end} bytes behind the end of {self.kind.__name__}")
        return value

    def decode_first(self, version: int, view: View, offset: int) -> M:
        """Read the message that begins at `offset`; what follows it is ignored.

        Raises:
            SchemaError: the bytes are damaged.
        """
        return self._read(version, view, offset)[0]

    def encode(self, version: int, value: M, head: bytes = b"") -> list[bytearray | memoryview]:
        """Write `head` and then the message; records are not copied but are parts of their own.

        Fields that the version does not have are left out.

        Raises:
            SchemaError: a value has the wrong type, or does not fit this version.
        """
        out = Output(head)
        self._codec(version).write(out, value)
        return out.parts()

    def _read(self, version: int, view: View, offset: int) -> tuple[M, int]:
        if self._is_counted:
            count_from_none()
        return self._codec(version).read(view, offset)

    def _codec(self, version: int) -> Codec:
        codec = self._compiled.get(version)
        if codec is None:
            form = Form(version, version >= self.flexible_from, self._is_counted)
            codec = self._compiled[version] = Struct(self.kind).codec(form, False)
        return codec
