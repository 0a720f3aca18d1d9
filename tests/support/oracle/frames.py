"""Frames, field by field: for who must not read with the codec that is tested or measured."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_MAX_STRING_BYTES: Final = 0x7FFF
_UUID_BYTES: Final = 16
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UINT16: Final = struct.Struct(">H")
_UINT32: Final = struct.Struct(">I")
_FLOAT64: Final = struct.Struct(">d")


class SchemaError(Exception):
    """A frame does not hold what its version promises."""


class RequestHeader(NamedTuple):
    """Header of a request, without its tagged fields."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class FrameReader:
    """Reads fields from one frame (size prefix stripped), front to back. One thread.

    Every method raises ``SchemaError`` where the frame ends early, or where a length, a varint or
    a text in it cannot be.

    Args:
        data: the frame, or a part of it.
        what: name of the message, for error texts.
    """

    __slots__ = ("_data", "_offset", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._offset = 0
        self._what = what

    @property
    def data(self) -> bytes:
        """The whole frame."""
        return self._data

    @property
    def offset(self) -> int:
        """Index of the next byte to read."""
        return self._offset

    def seek(self, offset: int) -> None:
        """Continue at ``offset``: for code that unpacked a stretch of ``data`` by itself."""
        if not 0 <= offset <= len(self._data):
            raise self.error(f"jump to offset {offset}")
        self._offset = offset

    def error(self, what: str) -> SchemaError:
        """The error to raise for ``what`` at the current place."""
        return SchemaError(
            f"{self._what}: {what} at offset {self._offset} of {len(self._data)} bytes"
        )

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        end = self._offset + size
        if size < 0 or end > len(self._data):
            raise self.error(f"field of {size} bytes")
        taken = self._data[self._offset : end]
        self._offset = end
        return taken

    def boolean(self) -> bool:
        return self.take(1) != b"\x00"

    def int8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def uint16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def float64(self) -> float:
        value: float = _FLOAT64.unpack(self.take(8))[0]
        return value

    def uuid(self) -> bytes:
        """The 16 bytes of a UUID."""
        return self.take(_UUID_BYTES)

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.error("varint longer than 5 bytes")

    def count(self, flexible: bool, least_item_bytes: int = 1) -> int:
        """Length of an array; -1 is a null array."""
        count = self.uvarint() - 1 if flexible else self.int32()
        left = len(self._data) - self._offset
        if count < -1 or count * least_item_bytes > left:
            raise self.error(f"array of {count} entries with {left} bytes left,")
        return count

    def length(self, flexible: bool, least_item_bytes: int = 1) -> int:
        """Length of an array that must not be null."""
        count = self.count(flexible, least_item_bytes)
        if count < 0:
            raise self.error("null in place of an array")
        return count

    def nullable_string(self, flexible: bool) -> str | None:
        size = self.uvarint() - 1 if flexible else self.int16()
        if size == -1:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise self.error(f"text that is not UTF-8 ({error.reason})") from error

    def string(self, flexible: bool) -> str:
        text = self.nullable_string(flexible)
        if text is None:
            raise self.error("null in place of a string")
        return text

    def nullable_bytes(self, flexible: bool) -> bytes | None:
        size = self.uvarint() - 1 if flexible else self.int32()
        return None if size == -1 else self.take(size)

    def tags(self) -> list[tuple[int, FrameReader]]:
        """The tag section: (tag, reader of its value) in the order of the frame."""
        count = self.uvarint()
        if count * 2 > len(self._data) - self._offset:
            raise self.error(f"{count} tagged fields")
        return [
            (self.uvarint(), FrameReader(self.take(self.uvarint()), self._what))
            for _ in range(count)
        ]

    def skip_tags(self) -> None:
        self.tags()

    def request_header(self) -> RequestHeader:
        """The header up to the client id; a flexible request's tag section follows it."""
        return RequestHeader(self.int16(), self.int16(), self.int32(), self.nullable_string(False))


class FrameWriter:
    """Gathers the body of one message and frames it. One thread.

    A number that does not fit its field, or None where a number belongs, raises ``ValueError``.
    """

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def raw(self, value: bytes) -> None:
        """``value`` as it is: a part that was encoded before."""
        self._data += value

    def uuid(self, value: bytes | None) -> None:
        """The 16 bytes of a UUID; None for the zero one."""
        if value is not None and len(value) != _UUID_BYTES:
            raise ValueError(f"UUID of {len(value)} bytes: it has {_UUID_BYTES}")
        self._data += bytes(_UUID_BYTES) if value is None else value

    def boolean(self, value: bool) -> None:
        self._data.append(1 if value else 0)

    def int8(self, value: int) -> None:
        self._pack(_INT8, value)

    def int16(self, value: int) -> None:
        self._pack(_INT16, value)

    def int32(self, value: int) -> None:
        self._pack(_INT32, value)

    def int64(self, value: int) -> None:
        self._pack(_INT64, value)

    def uint16(self, value: int) -> None:
        self._pack(_UINT16, value)

    def uint32(self, value: int) -> None:
        self._pack(_UINT32, value)

    def float64(self, value: float) -> None:
        self._pack(_FLOAT64, value)

    def uvarint(self, value: int) -> None:
        if not 0 <= value < 1 << 32:
            raise ValueError(f"unsigned varint of {value}: must be from 0 to {(1 << 32) - 1}")
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)

    def count(self, length: int | None, flexible: bool) -> None:
        """Length of an array; None for a null array."""
        if flexible:
            self.uvarint(0 if length is None else length + 1)
        else:
            self.int32(-1 if length is None else length)

    def string(self, text: str | None, flexible: bool) -> None:
        """A text or null; at most 32,767 bytes of UTF-8, Kafka's limit."""
        encoded = None if text is None else text.encode()
        size = -1 if encoded is None else len(encoded)
        if size > _MAX_STRING_BYTES:
            raise ValueError(
                f"text of {size} bytes that starts with {(text or '')[:20]!r}: Kafka's strings"
                f" hold at most {_MAX_STRING_BYTES} bytes"
            )
        if flexible:
            self.uvarint(size + 1)
        else:
            self.int16(size)
        self._data += encoded or b""

    def octets(self, value: bytes | None, flexible: bool) -> None:
        """A byte string or null."""
        self.count(None if value is None else len(value), flexible)
        self._data += value or b""

    def no_tags(self, flexible: bool) -> None:
        """An empty tag section, which only flexible versions have."""
        if flexible:
            self._data.append(0)

    def body(self) -> bytes:
        """What was written, without header and size prefix."""
        return bytes(self._data)

    def request(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        *,
        flexible: bool,
    ) -> bytes:
        """Size prefix, request header v2 if ``flexible`` else v1, body (contract P-G.9)."""
        header = FrameWriter()
        header.int16(api_key)
        header.int16(version)
        header.int32(correlation_id)
        header.string(client_id, False)
        header.no_tags(flexible)
        return _prefixed(header.body() + self._data)

    def response(self, correlation_id: int, *, header_tags: bool) -> bytes:
        """Size prefix, response header v1 if ``header_tags`` else v0, body (contract P-G.9)."""
        header = FrameWriter()
        header.int32(correlation_id)
        header.no_tags(header_tags)
        return _prefixed(header.body() + self._data)

    def _pack(self, layout: struct.Struct, value: float) -> None:
        try:
            self._data += layout.pack(value)
        except struct.error as error:
            raise ValueError(f"value {value!r}: {error}") from error


def response_reader(payload: bytes, what: str, *, header_tags: bool) -> tuple[int, FrameReader]:
    """(correlation id, reader standing at the body) of a response without its size prefix."""
    reader = FrameReader(payload, what)
    correlation_id = reader.int32()
    if header_tags:
        reader.skip_tags()
    return correlation_id, reader


def _prefixed(frame: bytes) -> bytes:
    return _INT32.pack(len(frame)) + frame
