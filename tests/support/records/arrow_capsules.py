"""Arrow structs made by hand: every field as a test wants it, and each release counted.

The layout is the published Arrow C data interface; nothing of pyarrow is in here.
"""

from __future__ import annotations

import ctypes
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.c_void_p),
    ("get_next", ctypes.c_void_p),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@dataclass
class Part:
    """An array and its type, with children and dictionary; None as a buffer is a null pointer."""

    format: bytes | None
    length: int
    buffers: Sequence[bytes | None] = ()
    children: Sequence[Part] = ()
    dictionary: Part | None = None
    offset: int = 0
    null_count: int = -1
    name: bytes | None = b""
    n_buffers: int | None = None
    n_children: int | None = None
    is_released: bool = False


def offsets32(*numbers: int) -> bytes:
    """An offsets buffer."""
    return struct.pack(f"={len(numbers)}i", *numbers)


def offsets64(*numbers: int) -> bytes:
    """An offsets buffer of a large type."""
    return struct.pack(f"={len(numbers)}q", *numbers)


def view(size: int, data: bytes, buffer: int = 0, offset: int = 0) -> bytes:
    """One 16-byte view: `data` is all of it if it is short, else its first four bytes."""
    if size <= 12:
        return struct.pack("=i12s", size, data)
    return struct.pack("=i4sii", size, data, buffer, offset)


def binary(*cells: bytes, **words: Any) -> Part:
    """A binary array without nulls."""
    ends = [sum(map(len, cells[:i])) for i in range(len(cells) + 1)]
    return Part(b"z", len(cells), [None, offsets32(*ends), b"".join(cells)], **words)


def batch(**columns: Part) -> Part:
    """A struct of columns, as long as the first of them."""
    for name, column in columns.items():
        column.name = name.encode()
    return Part(b"+s", next(iter(columns.values())).length, [None], list(columns.values()))


@dataclass
class _Maker:
    """Makes structs; `released` counts what their consumers have released."""

    part: Part
    released: Counter[str] = field(default_factory=Counter)
    _kept: list[Any] = field(default_factory=list)

    def structs(self, part: Part) -> tuple[_Schema, _Array]:
        """The two structs of a part, which count their release."""
        schema, array = _Schema(), _Array()
        inner = [self.structs(child) for child in part.children]
        schema.format, schema.name = part.format, part.name
        array.length, array.null_count, array.offset = part.length, part.null_count, part.offset
        array.n_buffers = len(part.buffers) if part.n_buffers is None else part.n_buffers
        count = len(inner) if part.n_children is None else part.n_children
        schema.n_children = array.n_children = count
        if inner:
            schemas = (ctypes.POINTER(_Schema) * len(inner))(*(ctypes.pointer(s) for s, _ in inner))
            arrays = (ctypes.POINTER(_Array) * len(inner))(*(ctypes.pointer(a) for _, a in inner))
            schema.children = ctypes.cast(schemas, ctypes.POINTER(ctypes.POINTER(_Schema)))
            array.children = ctypes.cast(arrays, ctypes.POINTER(ctypes.POINTER(_Array)))
            self._kept += [schemas, arrays]
        if part.dictionary is not None:
            its_schema, its_array = self.structs(part.dictionary)
            schema.dictionary, array.dictionary = (
                ctypes.pointer(its_schema),
                ctypes.pointer(its_array),
            )
        if part.buffers:
            held = [
                None if b is None else ctypes.create_string_buffer(b, len(b) + 1)
                for b in part.buffers
            ]
            pointers = (ctypes.c_void_p * len(held))(
                *(None if b is None else ctypes.addressof(b) for b in held)
            )
            array.buffers = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
            self._kept += [held, pointers]
        schema.release = self._releaser(_Schema, "schema")
        if not part.is_released:
            array.release = self._releaser(_Array, "array")
        self._kept += [schema, array]
        return schema, array

    def _releaser(self, kind: type[Any], name: str) -> int | None:
        def release(address: int) -> None:
            self.released[name] += 1
            kind.from_address(address).release = None

        return self._callback(_RELEASE, release)

    def _callback(self, kind: Any, function: Any) -> int | None:
        made = kind(function)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value

    def _capsule(self, given: Any, name: bytes) -> object:
        """Without a destructor: what a consumer does not release stays, and is not counted."""
        kept_name = ctypes.create_string_buffer(name)
        self._kept.append(kept_name)
        return _new(ctypes.addressof(given), kept_name, None)


@dataclass
class Exporter(_Maker):
    """An object with `__arrow_c_array__`."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self.structs(self.part)
        return self._capsule(schema, b"arrow_schema"), self._capsule(array, b"arrow_array")


@dataclass
class StreamExporter(_Maker):
    """An object with `__arrow_c_stream__` that gives `parts`, then perhaps an error.

    Args:
        part: whose type is the stream's.
        parts: the arrays.
        error: what `get_next` says after them.
        schema_error: what `get_schema` says.
    """

    parts: Sequence[Part] = ()
    error: bytes | None = None
    schema_error: bytes | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream = _Stream()
        left = iter(self.parts)
        said = self.error or self.schema_error or b""
        text = ctypes.create_string_buffer(said)

        def get_schema(_: int, out: int) -> int:
            if self.schema_error is not None:
                return 5
            ctypes.memmove(
                out, ctypes.addressof(self.structs(self.part)[0]), ctypes.sizeof(_Schema)
            )
            return 0

        def get_next(_: int, out: int) -> int:
            part = next(left, None)
            if part is not None:
                made = self.structs(part)[1]
                ctypes.memmove(out, ctypes.addressof(made), ctypes.sizeof(_Array))
                return 0
            if self.error is not None:
                return 22
            ctypes.memset(out, 0, ctypes.sizeof(_Array))
            return 0

        stream.get_schema = self._callback(_GET, get_schema)
        stream.get_next = self._callback(_GET, get_next)
        stream.get_last_error = self._callback(
            _LAST_ERROR, lambda _: ctypes.addressof(text) if said else None
        )
        stream.release = self._releaser(_Stream, "stream")
        self._kept += [stream, text]
        return self._capsule(stream, b"arrow_array_stream")
