"""fastprod.protocol.field_types: numbers, texts, bytes, records without a copy (B-B1, B-D5)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.protocol import schema
from fastprod.protocol.field_types import read_uvarint
from fastprod.protocol.schema import Schema, SchemaError, field, message
from support.oracle import varint

if TYPE_CHECKING:
    from typing_extensions import Buffer


@message
class Numbers:
    flag: bool = field(schema.BOOL)
    tiny: int = field(schema.INT8)
    short: int = field(schema.INT16)
    plain: int = field(schema.INT32)
    long: int = field(schema.INT64)
    port: int = field(schema.UINT16)
    count: int = field(schema.UINT32)
    share: float = field(schema.FLOAT64)
    topic_id: bytes = field(schema.UUID)


@message
class Text:
    text: str = field(schema.STRING)


@message
class Batches:
    first: Buffer | list[Buffer] | None = field(schema.RECORDS, nullable="0+", default=None)
    number: int = field(schema.INT16)
    second: Buffer | list[Buffer] | None = field(schema.RECORDS, nullable="0+", default=None)


NUMBERS = Schema(Numbers, None)
TEXT = Schema(Text, 1)
BATCHES = Schema(Batches, 1)


def written(schema: Schema[Any], version: int, value: Any) -> bytes:
    return b"".join(schema.encode(version, value))


def read(schema: Schema[Any], version: int, data: bytes) -> Any:
    return schema.decode(version, memoryview(bytearray(data)))


def test_fixed_types_are_big_endian() -> None:
    """P-J.1.1."""
    value = Numbers(
        flag=True,
        tiny=-1,
        short=-2,
        plain=-3,
        long=-4,
        port=65535,
        count=2**32 - 1,
        share=-1.5,
        topic_id=bytes(range(16)),
    )
    wanted = struct.pack(">?bhiqHId", 1, -1, -2, -3, -4, 65535, 2**32 - 1, -1.5) + bytes(range(16))
    assert written(NUMBERS, 0, value) == wanted
    assert read(NUMBERS, 0, wanted) == value
    assert read(NUMBERS, 0, b"\x07" + wanted[1:]).flag is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tiny", 128),
        ("tiny", -129),
        ("short", 2**15),
        ("plain", 2**31),
        ("long", -(2**63) - 1),
        ("port", -1),
        ("count", 2**32),
        ("plain", "1"),
        ("plain", None),
        ("share", "x"),
        ("topic_id", bytes(15)),
        ("topic_id", None),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(SchemaError, match=f"^{name}: ") as caught:
        NUMBERS.encode(0, Numbers(**{name: value}))  # type: ignore[arg-type]
    assert caught.value.path == name


@pytest.mark.parametrize("version", [0, 1])
def test_a_string_is_utf_8_of_at_most_32767_bytes(version: int) -> None:
    """P-J.1.1."""
    longest = Text(text="e" * 32765 + "\u00e9")
    assert read(TEXT, version, written(TEXT, version, longest)) == longest
    with pytest.raises(SchemaError, match=r"^text: a string of 32768 bytes, over 32767"):
        TEXT.encode(version, Text(text="e" * 32768))
    with pytest.raises(SchemaError, match=r"^text: .*surrogates not allowed"):
        TEXT.encode(version, Text(text="\ud800"))
    with pytest.raises(SchemaError, match=r"^text: .*can't decode byte 0xff"):
        read(TEXT, version, (b"\2" if version else b"\0\1") + b"\xff" + bytes(20))
    with pytest.raises(SchemaError, match=r"^text: a string of 32768 bytes, over 32767"):
        read(TEXT, 1, b"\x81\x80\x02" + bytes(40000))


@given(st.integers(0, 2**32 - 1))
def test_lengths_are_unsigned_varints_of_32_bits(value: int) -> None:
    """P-E.3.3, here read by the broker."""
    data = varint.encode_unsigned(value)
    assert read_uvarint(memoryview(b"\xff" + data + b"\xff"), 1) == (value, 1 + len(data))


def test_a_longer_varint_is_refused() -> None:
    for data in (b"\xff" * 5, b"\xff\xff\xff\xff\x10", b"\x80" * 5 + b"\0"):
        with pytest.raises(SchemaError, match="more than 32 bits"):
            read_uvarint(memoryview(data), 0)
    with pytest.raises(SchemaError, match=r"^first: 4294967294 bytes stated, 2 left"):
        read(BATCHES, 1, b"\xff\xff\xff\xff\x0f\0\0")


@pytest.mark.parametrize("version", [0, 1])
def test_records_are_read_as_writable_slices_of_the_frame(version: int) -> None:
    data = written(BATCHES, version, Batches(first=b"abc", second=b""))
    frame = bytearray(b"head" + data)
    value = BATCHES.decode(version, memoryview(frame), 4)
    assert isinstance(value.first, memoryview)
    assert isinstance(value.second, memoryview)
    assert (bytes(value.first), value.second.nbytes) == (b"abc", 0)
    value.first[:] = b"xyz"
    assert b"xyz" in frame
    assert read(BATCHES, version, written(BATCHES, version, Batches())).first is None


@pytest.mark.parametrize("version", [0, 1])
def test_records_are_written_without_a_copy(version: int) -> None:
    one, two, three = bytearray(b"one"), bytearray(b"two2"), bytearray(b"three")
    value = Batches(first=[one, memoryview(two), b""], number=3, second=three)
    parts = BATCHES.encode(version, value, b"head")
    whole = b"".join(parts)
    assert whole.startswith(b"head")
    assert read(BATCHES, version, whole[4:]) == Batches(first=b"onetwo2", number=3, second=b"three")
    for buffer in (one, two, three):
        buffer[:] = bytes(len(buffer))
    assert b"".join(parts).count(0) == whole.count(0) + 12
    assert all(memoryview(part).nbytes == len(part) for part in parts)


def test_records_of_any_item_size_count_in_bytes() -> None:
    words = memoryview(bytearray(8)).cast("I")
    parts = BATCHES.encode(1, Batches(first=words, second=[]))
    assert b"".join(parts) == b"\x09" + bytes(8) + b"\0\0\1\0"
    assert sum(map(len, parts)) == 13
