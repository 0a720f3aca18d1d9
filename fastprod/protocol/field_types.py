"""The simple types of Kafka's schema language: bytes to values and back.

A type compiles to two closures for a version, one that reads and one that writes. Reading trusts no
length: what the rest of the frame cannot hold is refused before anything is made of it.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from fastprod.errors import KafkaError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAX_STRING_BYTES = 0x7FFF


class SchemaError(KafkaError):
    """A message that cannot be read or written as its schema says.

    Attributes:
        path: the field, from the message down, as `topics.partitions.records`; empty: the whole.
        reason: what is wrong, with the numbers.
        at: where in the frame it was found, in bytes; None: not while reading.
    """

    def __init__(self, reason: str, path: str = "", at: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.at = at

    def __str__(self) -> str:
        found = f", at byte {self.at}" if self.at is not None else ""
        return f"{self.path}: {self.reason}{found}" if self.path else f"{self.reason}{found}"

    def within(self, name: str) -> SchemaError:
        """The same error, seen from the struct whose field `name` it is in."""
        return SchemaError(self.reason, f"{name}.{self.path}" if self.path else name, self.at)


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


View = bytes | memoryview
"""A frame to read. Of a memoryview, which is of format B, records are slices."""

Read = Callable[[View, int], tuple[Any, int]]
"""(frame, position) -> (value, position behind it)."""

ReadMany = Callable[[View, int, int], tuple[list[Any], int]]
"""(frame, position, how many) -> (values, position behind them)."""

Write = Callable[[Output, Any], None]
"""Appends a value."""


class Form:
    """What a type is compiled for.

    Attributes:
        version: of the message.
        is_flexible: lengths are varints, and structs end with tagged fields (KIP-482).
        is_counted: a message holds no more than `MAX_ITEM_COUNT` items, and its tags are in order:
            anybody may have sent it.
    """

    __slots__ = ("is_counted", "is_flexible", "version")

    def __init__(self, version: int, is_flexible: bool, is_counted: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.is_counted = is_counted


class Codec:
    """How one field of one version is read and written.

    Attributes:
        read: reads one.
        write: writes one.
        min_bytes: the fewest bytes that a value takes.
        code: of a fixed-size value, its letter in the language of `struct`.
        read_many: reads a number of them, if there is a faster way than `read`.
    """

    __slots__ = ("code", "min_bytes", "read", "read_many", "write")

    def __init__(
        self,
        read: Read,
        write: Write,
        min_bytes: int,
        code: str = "",
        read_many: ReadMany | None = None,
    ) -> None:
        self.read = read
        self.write = write
        self.min_bytes = min_bytes
        self.code = code
        self.read_many = read_many


class FieldType(Protocol):
    """A type of Kafka's schema language."""

    def default(self) -> Any:
        """A new value of a field that does not say what its default is."""

    def codec(self, form: Form, is_nullable: bool) -> Codec:
        """Compile the type for a version of the message it is used in."""


MAX_ITEM_COUNT = 200_000
"""Items of lists, and tagged fields, in one counted message: each becomes an object or two."""

# What is shorter cannot hold more, and need not be counted.
_UNCOUNTED_BYTES = MAX_ITEM_COUNT


class _ItemsLeft(threading.local):
    """What the message that this thread reads may still hold."""

    count = MAX_ITEM_COUNT


_items_left = _ItemsLeft()


def count_from_none() -> None:
    """This thread begins to read another counted message."""
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


def read_uvarint(view: View, at: int) -> tuple[int, int]:
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
        self._codec = self._made(code)
        self._default = default

    def default(self) -> Any:
        return self._default

    def codec(self, form: Form, is_nullable: bool) -> Codec:
        return self._codec

    def _made(self, code: str) -> Codec:
        layout = struct.Struct(">" + code)
        size, unpack, pack = layout.size, layout.unpack_from, layout.pack

        def read(view: View, at: int) -> tuple[Any, int]:
            return unpack(view, at)[0], at + size

        def write(out: Output, value: Any) -> None:
            out += pack(value)

        return Codec(read, write, size, code)


class _Uuid(_Fixed):
    """An id of 16 bytes; `struct` would quietly fill up a shorter one."""

    def _made(self, code: str) -> Codec:
        def write(out: Output, value: Any) -> None:
            if len(value) != 16:
                raise SchemaError(f"a uuid has 16 bytes, not {len(value)}")
            out += value

        fixed = super()._made(code)
        return Codec(fixed.read, write, fixed.min_bytes)


def lengths(
    code: str, is_flexible: bool, is_nullable: bool
) -> tuple[Callable[[View, int], tuple[int, int]], Callable[[Output, int], None], int]:
    """Reader and writer of a length, -1 for null, and the bytes it takes at least."""
    fixed = struct.Struct(">" + code)
    size, unpack, pack = fixed.size, fixed.unpack_from, fixed.pack
    least = -1 if is_nullable else 0

    def refuse(length: int) -> NoReturn:
        raise SchemaError(
            "null, where this version has no null" if length == -1 else f"length {length}"
        )

    def read(view: View, at: int) -> tuple[int, int]:
        length: int = unpack(view, at)[0]
        if length < least:
            refuse(length)
        return length, at + size

    def read_compact(view: View, at: int) -> tuple[int, int]:
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

    return (read_compact, write_compact, 1) if is_flexible else (read, write, size)


def end_of(view: View, at: int, length: int) -> int:
    """Where `length` bytes from `at` on end."""
    end = at + length
    if end > len(view):
        raise SchemaError(f"{length} bytes stated, {len(view) - at} left")
    return end


class _Sized:
    """What has its length before it. Its codecs are the same in every message, and made once."""

    def __init__(self) -> None:
        self._codecs: dict[tuple[bool, bool], Codec] = {}

    def codec(self, form: Form, is_nullable: bool) -> Codec:
        key = form.is_flexible, is_nullable
        codec = self._codecs.get(key)
        if codec is None:
            codec = self._codecs[key] = self._made(*key)
        return codec

    def _made(self, is_flexible: bool, is_nullable: bool) -> Codec:
        raise NotImplementedError


class _String(_Sized):
    """UTF-8 text of at most 32767 bytes."""

    def default(self) -> str:
        return ""

    def _made(self, is_flexible: bool, is_nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("h", is_flexible, is_nullable)

        def read(view: View, at: int) -> tuple[str | None, int]:
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


class _Bytes(_Sized):
    """Opaque bytes, copied."""

    def default(self) -> bytes:
        return b""

    def _made(self, is_flexible: bool, is_nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("i", is_flexible, is_nullable)

        def read(view: View, at: int) -> tuple[bytes | None, int]:
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

    def _made(self, is_flexible: bool, is_nullable: bool) -> Codec:
        read_length, write_length, min_bytes = lengths("i", is_flexible, is_nullable)

        def read(view: View, at: int) -> tuple[View | None, int]:
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
