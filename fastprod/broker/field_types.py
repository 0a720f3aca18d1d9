"""The types of Kafka's schema language that are no lists and no structs: bytes to values and back.

A type compiles to two closures for a version, one that reads and one that writes. Reading trusts no
length: what the rest of the frame cannot hold is refused before anything is made of it.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAX_STRING_BYTES = 0x7FFF


class SchemaError(ValueError):
    """A message that cannot be read or written as its schema says.

    Attributes:
        path: the field, from the message down, as `topics.partitions.records`; empty: the whole.
        reason: what is wrong, with the numbers.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    def within(self, name: str) -> SchemaError:
        """The same error, seen from the struct whose field `name` it is in."""
        return SchemaError(self.reason, f"{name}.{self.path}" if self.path else name)


class Output(bytearray):
    """A message being written; buffers that are not to be copied are noted beside it."""

    __slots__ = ("cuts",)

    def __init__(self, head: bytes = b"") -> None:
        super().__init__(head)
        self.cuts: list[tuple[int, list[memoryview]]] = []

    def parts(self) -> list[bytearray | memoryview]:
        """What was written, in order, with the noted buffers in their places."""
        if not self.cuts:
            return [self]
        written, start = memoryview(self), 0
        parts: list[bytearray | memoryview] = []
        for at, buffers in self.cuts:
            parts.append(written[start:at])
            parts += buffers
            start = at
        if start < len(written):
            parts.append(written[start:])
        return parts


class Codec(NamedTuple):
    """How one field of one version is read and written.

    Attributes:
        read: (frame, position) -> (value, position behind it).
        write: appends the value.
        min_bytes: the fewest bytes that a value takes.
        code: of a fixed-size value, its letter in the language of `struct`.
    """

    read: Callable[[memoryview, int], tuple[Any, int]]
    write: Callable[[Output, Any], None]
    min_bytes: int
    code: str = ""


class FieldType(Protocol):
    """A type of Kafka's schema language."""

    def default(self) -> Any:
        """A new value of a field that does not say what its default is."""

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        """Compile the type for a version of the message it is used in."""


MAX_ITEM_COUNT = 200_000
"""Items of lists, and tagged fields, in one message: each becomes an object or two."""

# What is shorter cannot hold more, and need not be counted.
_UNCOUNTED_BYTES = MAX_ITEM_COUNT


class _ItemsLeft(threading.local):
    """What the message that this thread reads may still hold."""

    count = MAX_ITEM_COUNT


_items_left = _ItemsLeft()


def count_from_none() -> None:
    """This thread begins to read another message."""
    _items_left.count = MAX_ITEM_COUNT


def count_items(count: int, bytes_left: int) -> None:
    """A list of `count` items follows, and `bytes_left` in all.

    Kafka has no such bound: a request of 100 MB costs it some gigabytes.
    """
    if bytes_left <= _UNCOUNTED_BYTES:
        return
    _items_left.count -= count
    if _items_left.count < 0:
        raise SchemaError(f"{count} more items, over {MAX_ITEM_COUNT:,} in one message")


def read_uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits: (value, position behind it)."""
    byte = view[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < 35:
        at += 1
        byte = view[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, at + 1
        shift += 7
    raise SchemaError("an unsigned varint has more than 32 bits")


def write_uvarint(out: Output, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class _Fixed:
    """Numbers, booleans and ids: always the same number of bytes."""

    def __init__(self, code: str, default: Any) -> None:
        self._struct = struct.Struct(">" + code)
        self._code = code
        self._default = default

    def default(self) -> Any:
        return self._default

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        size, unpack, pack = self._struct.size, self._struct.unpack_from, self._struct.pack

        def read(view: memoryview, at: int) -> tuple[Any, int]:
            return unpack(view, at)[0], at + size

        def write(out: Output, value: Any) -> None:
            out += pack(value)

        return Codec(read, write, size, self._code)


class _Uuid(_Fixed):
    """An id of 16 bytes; `struct` would quietly fill up a shorter one."""

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        def write(out: Output, value: Any) -> None:
            if len(value) != 16:
                raise SchemaError(f"a uuid has 16 bytes, not {len(value)}")
            out += value

        return super().codec(version, flexible, nullable)._replace(write=write, code="")


def lengths(
    code: str, flexible: bool, nullable: bool
) -> tuple[Callable[[memoryview, int], tuple[int, int]], Callable[[Output, int], None], int]:
    """Reader and writer of a length, -1 for null, and the bytes it takes at least."""
    fixed = struct.Struct(">" + code)
    size, unpack, pack = fixed.size, fixed.unpack_from, fixed.pack
    least = -1 if nullable else 0

    def refuse(length: int) -> NoReturn:
        raise SchemaError(
            "null, where this version has no null" if length == -1 else f"length {length}"
        )

    def read(view: memoryview, at: int) -> tuple[int, int]:
        length: int = unpack(view, at)[0]
        if length < least:
            refuse(length)
        return length, at + size

    def read_compact(view: memoryview, at: int) -> tuple[int, int]:
        length = view[at] - 1
        if length < 0x7F:
            at += 1
        else:
            length, at = read_uvarint(view, at)
            length -= 1
        if length < least:
            refuse(length)
        return length, at

    def write(out: Output, length: int) -> None:
        if length < least:
            refuse(length)
        out += pack(length)

    def write_compact(out: Output, length: int) -> None:
        if length < least:
            refuse(length)
        if length < 0x7F:
            out.append(length + 1)
        else:
            write_uvarint(out, length + 1)

    return (read_compact, write_compact, 1) if flexible else (read, write, size)


def end_of(view: memoryview, at: int, length: int) -> int:
    """Where `length` bytes from `at` on end."""
    end = at + length
    if end > len(view):
        raise SchemaError(f"{length} bytes stated, {len(view) - at} left")
    return end


class _String:
    """UTF-8 text of at most 32767 bytes."""

    def default(self) -> str:
        return ""

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("h", flexible, nullable)

        def read(view: memoryview, at: int) -> tuple[str | None, int]:
            length, at = read_length(view, at)
            if length < 0:
                return None, at
            if length > _MAX_STRING_BYTES:
                raise SchemaError(f"a string of {length} bytes, over {_MAX_STRING_BYTES}")
            end = end_of(view, at, length)
            return str(view[at:end], "utf-8"), end

        def write(out: Output, value: str | None) -> None:
            if value is None:
                write_length(out, -1)
                return
            data = value.encode()
            if len(data) > _MAX_STRING_BYTES:
                raise SchemaError(f"a string of {len(data)} bytes, over {_MAX_STRING_BYTES}")
            write_length(out, len(data))
            out += data

        return Codec(read, write, min_bytes)


class _Bytes:
    """Opaque bytes, copied."""

    def default(self) -> bytes:
        return b""

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("i", flexible, nullable)

        def read(view: memoryview, at: int) -> tuple[bytes | None, int]:
            length, at = read_length(view, at)
            if length < 0:
                return None, at
            end = end_of(view, at, length)
            return bytes(view[at:end]), end

        def write(out: Output, value: Buffer | None) -> None:
            if value is None:
                write_length(out, -1)
                return
            data = memoryview(value)
            write_length(out, data.nbytes)
            out += data

        return Codec(read, write, min_bytes)


class _Records(_Bytes):
    """Record batches: read as a slice of the frame, written from a buffer or a list of them."""

    def codec(self, version: int, flexible: bool, nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("i", flexible, nullable)

        def read(view: memoryview, at: int) -> tuple[memoryview | None, int]:
            length, at = read_length(view, at)
            if length < 0:
                return None, at
            end = end_of(view, at, length)
            return view[at:end], end

        def write(out: Output, value: Buffer | list[Buffer] | None) -> None:
            if value is None:
                write_length(out, -1)
                return
            buffers = value if isinstance(value, list) else [value]
            views = [memoryview(buffer).cast("B") for buffer in buffers]
            size = sum(map(len, views))
            write_length(out, size)
            if size:
                out.cuts.append((len(out), views))

        return Codec(read, write, min_bytes)


BOOL: Final[FieldType] = _Fixed("?", False)
INT8: Final[FieldType] = _Fixed("b", 0)
INT16: Final[FieldType] = _Fixed("h", 0)
INT32: Final[FieldType] = _Fixed("i", 0)
INT64: Final[FieldType] = _Fixed("q", 0)
UINT16: Final[FieldType] = _Fixed("H", 0)
UINT32: Final[FieldType] = _Fixed("I", 0)
FLOAT64: Final[FieldType] = _Fixed("d", 0.0)
UUID: Final[FieldType] = _Uuid("16s", bytes(16))
STRING: Final[FieldType] = _String()
BYTES: Final[FieldType] = _Bytes()
RECORDS: Final[FieldType] = _Records()
