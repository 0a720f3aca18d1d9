"""Kafka's messages as tables: a message is a class whose fields say how they go over the wire.

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

import dataclasses
import struct
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar, dataclass_transform

from fastprod.broker.field_types import (
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
    Output,
    SchemaError,
    count_from_none,
    count_items,
    end_of,
    lengths,
    read_uvarint,
    write_uvarint,
)

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
    "Schema",
    "SchemaError",
    "SharedList",
    "Struct",
    "field",
    "fields_of",
    "message",
    "skip_tags",
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
    """A list of one type, or of one message class."""

    def __init__(self, item: FieldType | type) -> None:
        self.item = as_type(item)

    def default(self) -> list[Any]:
        return []

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("i", flexible, nullable)
        item = self.item.codec(version, flexible, False)
        read_item, write_item, item_bytes = item.read, item.write, item.min_bytes

        def room(view: memoryview, at: int, count: int) -> None:
            left = len(view) - at
            if count * item_bytes > left:
                raise SchemaError(
                    f"{count} items stated, of at least {item_bytes} bytes each; {left} bytes left"
                )
            count_items(count, left)

        def read(view: memoryview, at: int) -> tuple[list[Any] | None, int]:
            count, at = read_length(view, at)
            if count < 0:
                return None, at
            room(view, at, count)
            items = []
            for _ in range(count):
                value, at = read_item(view, at)
                items.append(value)
            return items, at

        def read_fixed(view: memoryview, at: int) -> tuple[list[Any] | None, int]:
            count, at = read_length(view, at)
            if count < 0:
                return None, at
            room(view, at, count)
            values = struct.unpack_from(f">{count}{item.code}", view, at)
            return list(values), at + count * item_bytes

        def write(out: Output, values: list[Any] | None) -> None:
            if values is None:
                write_length(out, -1)
                return
            write_length(out, len(values))
            if type(values) is SharedList:
                values.write(out, write_item)
                return
            for value in values:
                write_item(out, value)

        def write_fixed(out: Output, values: list[Any] | None) -> None:
            if values is None:
                write_length(out, -1)
                return
            write_length(out, len(values))
            out += struct.pack(f">{len(values)}{item.code}", *values)

        if item.code:
            return Codec(read_fixed, write_fixed, min_bytes)
        return Codec(read, write, min_bytes)


class Field(NamedTuple):
    """One row of a message's table; `field` makes it."""

    name: str
    type: FieldType
    first: int
    last: int
    nullable_from: int
    nullable_to: int
    tag: int | None
    default: Callable[[], Any]

    def is_nullable(self, version: int) -> bool:
        return self.nullable_from <= version <= self.nullable_to


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
    null_range = _versions(nullable) if nullable is not None else (1, 0)
    row = Field("", field_type, *_versions(versions), *null_range, tag, make)
    if isinstance(field_type, (Array, Struct)) and default is _REQUIRED:
        return dataclasses.field(default_factory=make, metadata={"kafka": row})
    return dataclasses.field(default=make(), metadata={"kafka": row})


@dataclass_transform(kw_only_default=True)
def message(kind: type[M]) -> type[M]:
    """Make a class whose attributes are all `field`s a message, or a struct inside one.

    It gets slots, a constructor with keyword arguments and defaults, `==` and `repr`.
    """
    return dataclasses.dataclass(slots=True, kw_only=True)(kind)


def fields_of(kind: type) -> list[Field]:
    """The rows of a message class, in the order in which they are written."""
    rows = dataclasses.fields(kind)
    return [row.metadata["kafka"]._replace(name=row.name) for row in rows]


def as_type(kind: FieldType | type) -> FieldType:
    """A field type as it is; a message class as a struct."""
    return Struct(kind) if isinstance(kind, type) else kind


_Tagged = tuple[int, Field, Codec]
_TagReaders = dict[int, tuple[str, Callable[[memoryview, int], tuple[Any, int]]]]
_TagWriters = list[tuple[int, str, Any, Callable[[Output, Any], None]]]


def _read_tags(view: memoryview, at: int, readers: _TagReaders, values: dict[str, Any]) -> int:
    """Read the tagged fields into `values`, skipping unknown ones (B1.2); the position behind."""
    count, at = read_uvarint(view, at)
    end_of(view, at, 2 * count)
    count_items(count, len(view) - at)
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(view, at)
        if tag <= last:
            raise SchemaError(f"tag {tag} after tag {last}")
        last = tag
        size, at = read_uvarint(view, at)
        end = end_of(view, at, size)
        if tag in readers:
            name, read = readers[tag]
            try:
                values[name], used = read(view[at:end], 0)
            except _READ_ERRORS as error:
                raise _unreadable(name, error) from None
            if used != size:
                raise SchemaError(f"{size} bytes stated, {used} used", name)
        at = end
    return at


def skip_tags(view: memoryview, at: int) -> int:
    """The position behind the tagged fields at `at`."""
    count_from_none()
    return _read_tags(view, at, {}, {})


def _write_tags(out: Output, value: Any, writers: _TagWriters) -> None:
    """Write the tagged fields that are not as by default."""
    present = []
    for tag, name, default, write in writers:
        content = getattr(value, name)
        if content != default:
            present.append((tag, name, content, write))
    write_uvarint(out, len(present))
    for tag, name, content, write in present:
        inner = Output()
        try:
            write(inner, content)
        except _WRITE_ERRORS as error:
            raise _unwritable(name, error) from error
        write_uvarint(out, tag)
        write_uvarint(out, len(inner))
        out += inner


# What a closure raises that ran off the end of the frame or met text that is none.
_READ_ERRORS = (SchemaError, struct.error, IndexError, UnicodeError)
# What a closure raises that was given a value of the wrong type or range.
_WRITE_ERRORS = (SchemaError, struct.error, TypeError, AttributeError, UnicodeError)


def _unreadable(name: str, error: Exception) -> SchemaError:
    if isinstance(error, SchemaError):
        return error.within(name)
    reason = str(error) if isinstance(error, UnicodeError) else "the bytes end inside of it"
    return SchemaError(reason, name)


def _unwritable(name: str, error: Exception) -> SchemaError:
    return error.within(name) if isinstance(error, SchemaError) else SchemaError(str(error), name)


class Struct:
    """A message class as a type."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def default(self) -> Any:
        return self.kind()

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        rows = [row for row in fields_of(self.kind) if row.first <= version <= row.last]
        compiled = [
            (row, row.type.codec(version, flexible, row.is_nullable(version))) for row in rows
        ]
        plain = [(row.name, codec) for row, codec in compiled if row.tag is None]
        tagged = [(row.tag, row, codec) for row, codec in compiled if row.tag is not None]
        tagged.sort(key=itemgetter(0))
        min_bytes = sum(codec.min_bytes for _, codec in plain) + flexible
        codec = Codec(
            self._reader(plain, tagged, flexible),
            self._writer(plain, tagged, flexible),
            max(1, min_bytes),
        )
        return _nullable(codec) if nullable else codec

    def _reader(
        self, plain: list[tuple[str, Codec]], tagged: list[_Tagged], flexible: bool
    ) -> Callable[[memoryview, int], tuple[Any, int]]:
        kind = self.kind
        readers = [(name, codec.read) for name, codec in plain]
        tags = {tag: (row.name, codec.read) for tag, row, codec in tagged}

        def read(view: memoryview, at: int) -> tuple[Any, int]:
            values: dict[str, Any] = {}
            name = ""
            try:
                for name, read_field in readers:
                    values[name], at = read_field(view, at)
                if flexible:
                    name = "tagged fields"
                    at = _read_tags(view, at, tags, values) if view[at] else at + 1
            except _READ_ERRORS as error:
                raise _unreadable(name, error) from None
            return kind(**values), at

        return read

    def _writer(
        self, plain: list[tuple[str, Codec]], tagged: list[_Tagged], flexible: bool
    ) -> Callable[[Output, Any], None]:
        writers = [(name, codec.write) for name, codec in plain]
        tags = [(tag, row.name, row.default(), codec.write) for tag, row, codec in tagged]

        def write(out: Output, value: Any) -> None:
            name = ""
            try:
                for name, write_field in writers:
                    write_field(out, getattr(value, name))
                if flexible:
                    name = "tagged fields"
                    if tags:
                        _write_tags(out, value, tags)
                    else:
                        out.append(0)
            except _WRITE_ERRORS as error:
                raise _unwritable(name, error) from error

        return write


def _nullable(codec: Codec) -> Codec:
    """A struct behind a byte that says whether it is there."""

    def read(view: memoryview, at: int) -> tuple[Any, int]:
        present = view[at]
        if present == 0xFF:
            return None, at + 1
        if present != 1:
            raise SchemaError(f"{present} where 1 says that a struct follows and 255 none")
        return codec.read(view, at + 1)

    def write(out: Output, value: Any) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        codec.write(out, value)

    return Codec(read, write, 1)


class Schema(Generic[M]):
    """One message in all its versions.

    Any thread. A version is compiled when it is first used.

    Args:
        kind: the message's class.
        flexible_from: first version with compact forms and tagged fields; None: none has them.
    """

    def __init__(self, kind: type[M], flexible_from: int | None) -> None:
        self.kind = kind
        self.flexible_from = _MAX_VERSION + 1 if flexible_from is None else flexible_from
        self._compiled: dict[int, Codec] = {}

    def decode(self, version: int, view: memoryview, offset: int = 0) -> M:
        """Read the message that takes up `view` (of format B) from `offset` to its end.

        Records are writable slices of a writable `view`. Absent fields have their defaults.

        Raises:
            SchemaError: the bytes are damaged, or go on behind the message.
        """
        count_from_none()
        value, end = self._codec(version).read(view, offset)
        if end != len(view):
            raise SchemaError(f"{len(view) - end} bytes behind the end of {self.kind.__name__}")
        return value  # type: ignore[no-any-return]

    def decode_first(self, version: int, view: memoryview, offset: int) -> M:
        """Read the message that begins at `offset`; what follows it is nobody's.

        Raises:
            SchemaError: the bytes are damaged.
        """
        count_from_none()
        return self._codec(version).read(view, offset)[0]  # type: ignore[no-any-return]

    def encode(self, version: int, value: M, head: bytes = b"") -> list[bytearray | memoryview]:
        """Write `head` and then the message; records are not copied but are parts of their own.

        Fields that the version does not have are left out.

        Raises:
            SchemaError: a value has the wrong type, or does not fit this version.
        """
        out = Output(head)
        self._codec(version).write(out, value)
        return out.parts()

    def _codec(self, version: int) -> Codec:
        codec = self._compiled.get(version)
        if codec is None:
            codec = Struct(self.kind).codec(version, version >= self.flexible_from, False)
            self._compiled[version] = codec
        return codec
