"""Struct types: compiles a message class to a function that reads and one that writes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from fastprod.protocol.field_types import (
    Codec,
    Form,
    Output,
    Read,
    ReadMany,
    SchemaError,
    View,
    Write,
    count_from_none,
    count_items,
    end_of,
    read_uvarint,
    write_uvarint,
)
from fastprod.protocol.message_class import MANY, Field, Maker


def fields_of(kind: Any) -> tuple[Field, ...]:
    """The rows of a message class, in the order in which they are written."""
    return kind.kafka_rows  # type: ignore[no-any-return]


_TAGS = "tagged fields"
_TagReaders = dict[int, tuple[str, Read]]
_TagWriters = list[tuple[int, str, Any, Write]]
_Plain = list[tuple[str, Codec]]


def _read_tags(
    view: View, at: int, readers: _TagReaders, is_counted: bool
) -> tuple[dict[str, Any], int]:
    """Read tagged fields, skipping unknown ones (B-B1.2): (values, position behind)."""
    count, at = read_uvarint(view, at)
    end_of(view, at, 2 * count)
    if is_counted:
        count_items(count, len(view) - at)
    values = {}
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(view, at)
        if is_counted and tag <= last:
            raise SchemaError(f"tag {tag} after tag {last}")
        last = tag
        size, at = read_uvarint(view, at)
        end = end_of(view, at, size)
        if tag in readers:
            name, read = readers[tag]
            try:
                values[name], used = read(view[at:end], 0)
            except _READ_ERRORS as error:
                raise _unreadable(name, error, 0, at) from None
            if used != size:
                raise SchemaError(f"{size} bytes stated, {used} used", name, at)
        at = end
    return values, at


def skip_tags(view: View, at: int) -> int:
    """The position behind the tagged fields at `at`."""
    count_from_none()
    return _read_tags(view, at, {}, True)[1]


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


def _unreadable(name: str, error: Exception, at: int, start: int = 0) -> SchemaError:
    """What is wrong with field `name` at `at` of a part of the frame that begins at `start`."""
    if not isinstance(error, SchemaError):
        reason = str(error) if isinstance(error, UnicodeError) else "the bytes end inside of it"
        return SchemaError(reason, name, start + at)
    found = error.within(name)
    found.at = start + (at if error.at is None else error.at)
    return found


def _unwritable(name: str, error: Exception) -> SchemaError:
    return error.within(name) if isinstance(error, SchemaError) else SchemaError(str(error), name)


_ReadStep = tuple[Callable[..., tuple[Any, ...]] | None, int, Read]
"""What reads a run and its size; or none, and what reads a field."""

_WriteStep = tuple[Callable[[Any], Any], Callable[..., bytes] | None, Write]
"""What gets the values of a run, and what writes them; or none, and what writes a field."""

_Run = tuple[_Plain, struct.Struct | None]
"""Neighbouring fields of fixed size, which are read and written at once; or any one field."""


def _runs(plain: _Plain) -> list[_Run]:
    runs: list[_Run] = []
    for is_fixed, group in groupby(plain, key=lambda row: bool(row[1].code)):
        fields = list(group)
        if is_fixed:
            layout = struct.Struct(">" + "".join(codec.code for _, codec in fields))
            runs.append((fields, layout))
        else:
            runs += [([each], None) for each in fields]
    return runs


def _cut_off(fields: _Plain, at: int, size: int) -> tuple[str, int]:
    """The one of the fields from `at` on that a frame of `size` bytes ends in, and its place."""
    for name, codec in fields:
        if not codec.code or at + codec.min_bytes > size:
            return name, at
        at += codec.min_bytes
    return _TAGS, at


def _misfit(fields: _Plain, value: Any, error: Exception) -> SchemaError:
    """What is wrong with the first of the fields that cannot be written, which raised `error`."""
    for name, codec in fields:
        try:
            codec.write(Output(), getattr(value, name))
        except _WRITE_ERRORS as found:
            return _unwritable(name, found)
    return _unwritable("", error)


class Struct:
    """A message class as a type."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def default(self) -> Any:
        return self.kind()

    def codec(self, form: Form, is_nullable: bool) -> Codec:
        rows = [row for row in fields_of(self.kind) if row.first <= form.version <= row.last]
        compiled = [(row, row.type.codec(form, row.is_nullable(form.version))) for row in rows]
        plain = [(row.name, codec) for row, codec in compiled if row.tag is None]
        tagged = [(row.tag, row, codec) for row, codec in compiled if row.tag is not None]
        tagged.sort(key=itemgetter(0))
        min_bytes = max(1, sum(codec.min_bytes for _, codec in plain) + form.is_flexible)
        read_many = self._reader(
            plain, {tag: (row.name, codec.read) for tag, row, codec in tagged}, form
        )
        write = _writer(plain, tagged, form.is_flexible)

        def read(view: View, at: int) -> tuple[Any, int]:
            (value,), at = read_many(view, at, 1)
            return value, at

        if is_nullable:
            return _nullable(read, write)
        return Codec(read, write, min_bytes, read_many=read_many)

    def _reader(self, plain: _Plain, tags: _TagReaders, form: Form) -> ReadMany:
        is_flexible, is_counted = form.is_flexible, form.is_counted
        # Made by the first call: who writes a message does not read it.
        ready: tuple[Maker, list[_ReadStep]] | None = None

        def prepared() -> tuple[Maker, list[_ReadStep]]:
            nonlocal ready
            maker = Maker(self.kind, [name for name, _ in plain])
            ready = (
                maker,
                [
                    (None, 0, fields[0][1].read)
                    if layout is None
                    else (layout.unpack_from, layout.size, fields[0][1].read)
                    for fields, layout in _runs(plain)
                ],
            )
            return ready

        def read_many(view: View, at: int, count: int) -> tuple[list[Any], int]:
            items = []
            values: list[Any] = []
            maker, steps = ready or prepared()
            make = maker.make if count < MANY else maker.make_many()
            try:
                for _ in range(count):
                    values = []
                    for unpack, size, read_field in steps:
                        if unpack is None:
                            value, at = read_field(view, at)
                            values.append(value)
                        else:
                            values += unpack(view, at)
                            at += size
                    if not is_flexible:
                        items.append(make(values))
                    elif not view[at]:
                        items.append(make(values))
                        at += 1
                    else:
                        found, at = _read_tags(view, at, tags, is_counted)
                        item = make(values)
                        for name, value in found.items():
                            setattr(item, name, value)
                        items.append(item)
            except _READ_ERRORS as error:
                left = plain[len(values) :]
                name = left[0][0] if left else _TAGS
                if isinstance(error, struct.error):
                    name, at = _cut_off(left, at, len(view))
                raise _unreadable(name, error, at) from None
            return items, at

        return read_many


def _writer(plain: _Plain, tagged: list[tuple[int, Field, Codec]], is_flexible: bool) -> Write:
    # Made by the first call: who reads a message does not write it.
    ready: tuple[list[_WriteStep], _TagWriters] | None = None

    def prepared() -> tuple[list[_WriteStep], _TagWriters]:
        nonlocal ready
        steps: list[_WriteStep] = [
            (
                attrgetter(*[name for name, _ in fields]),
                layout.pack if layout is not None and len(fields) > 1 else None,
                fields[0][1].write,
            )
            for fields, layout in _runs(plain)
        ]
        ready = steps, [(tag, row.name, row.default(), codec.write) for tag, row, codec in tagged]
        return ready

    def write(out: Output, value: Any) -> None:
        steps, tags = ready or prepared()
        try:
            for get, pack, write_field in steps:
                if pack is None:
                    write_field(out, get(value))
                else:
                    out += pack(*get(value))
        except _WRITE_ERRORS as error:
            raise _misfit(plain, value, error) from error
        if not is_flexible:
            return
        if not tags:
            out.append(0)
            return
        try:
            _write_tags(out, value, tags)
        except _WRITE_ERRORS as error:
            raise _unwritable(_TAGS, error) from error

    return write


def _nullable(read_struct: Read, write_struct: Write) -> Codec:
    """A struct behind a byte that says whether it is there."""

    def read(view: View, at: int) -> tuple[Any, int]:
        present = view[at]
        if present == 0xFF:
            return None, at + 1
        if present != 1:
            raise SchemaError(f"{present} where 1 says that a struct follows and 255 none")
        return read_struct(view, at + 1)

    def write(out: Output, value: Any) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        write_struct(out, value)

    return Codec(read, write, 1)
