"""fastprod.frames: primitives of J.1.1 and the refusals of J.1.5."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastprod.frames import FrameReader, FrameWriter, SchemaError


def test_every_primitive_comes_back_as_it_was_written() -> None:
    """J.1.1."""
    writer = FrameWriter()
    writer.boolean(True)
    writer.int8(-2)
    writer.int16(-300)
    writer.int32(-70_000)
    writer.int64(-(2**40))
    writer.uint16(65_535)
    writer.uint32(2**32 - 1)
    writer.float64(0.5)
    writer.uuid(bytes(range(16)))
    writer.uuid(None)
    writer.uvarint(2**32 - 1)
    reader = FrameReader(writer.body(), "test")
    assert reader.boolean() is True
    assert reader.int8() == -2
    assert reader.int16() == -300
    assert reader.int32() == -70_000
    assert reader.int64() == -(2**40)
    assert reader.uint16() == 65_535
    assert reader.uint32() == 2**32 - 1
    assert reader.float64() == 0.5
    assert reader.uuid() == bytes(range(16))
    assert reader.uuid() == bytes(16)
    assert reader.uvarint() == 2**32 - 1
    assert reader.offset == len(reader.data)


@pytest.mark.parametrize(
    ("flexible", "expected"),
    [(False, "0003 6bc3b6 ffff 0000"), (True, "04 6bc3b6 00 01")],
)
def test_strings_carry_bytes_not_characters(flexible: bool, expected: str) -> None:
    """J.1.1: int16 length, -1 null; compact: varint of length + 1, 0 null."""
    writer = FrameWriter()
    for text in ("k\u00f6", None, ""):
        writer.string(text, flexible)
    assert writer.body() == bytes.fromhex(expected)
    reader = FrameReader(writer.body(), "test")
    assert [reader.nullable_string(flexible) for _ in range(3)] == ["k\u00f6", None, ""]


@pytest.mark.parametrize("flexible", [False, True])
def test_bytes_and_counts_know_null(flexible: bool) -> None:
    """J.1.1."""
    writer = FrameWriter()
    writer.octets(b"xy", flexible)
    writer.octets(None, flexible)
    writer.count(None, flexible)
    writer.count(0, flexible)
    reader = FrameReader(writer.body(), "test")
    assert reader.nullable_bytes(flexible) == b"xy"
    assert reader.nullable_bytes(flexible) is None
    assert reader.count(flexible) == -1
    assert reader.count(flexible) == 0


def test_request_headers_differ_only_by_the_tag_section() -> None:
    """G.9: v2 iff flexible; the client id keeps its int16 length."""
    body = FrameWriter()
    body.int8(7)
    plain = body.request(3, 8, 5, "fp", flexible=False)
    assert plain == bytes.fromhex("0000000d 0003 0008 00000005 0002 6670 07")
    flexible = body.request(3, 9, 5, "fp", flexible=True)
    assert flexible == bytes.fromhex("0000000e 0003 0009 00000005 0002 6670 00 07")
    assert body.request(3, 8, 5, None, flexible=False)[12:14] == b"\xff\xff"


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (lambda r: r.int32(), "0000 00"),
        (lambda r: r.string(False), "0005 6162"),
        (lambda r: r.string(False), "ffff"),
        (lambda r: r.string(False), "fffe"),
        (lambda r: r.string(True), "00"),
        (lambda r: r.string(False), "0002 ff41"),
        (lambda r: r.nullable_bytes(False), "fffffffe"),
        (lambda r: r.nullable_bytes(False), "7fffffff 00"),
        (lambda r: r.count(False), "7fffffff 00"),
        (lambda r: r.count(False), "fffffffe"),
        (lambda r: r.count(False, 6), "00000002 0000000000000000000000"),
        (lambda r: r.count(True), "ffffffff0f 00"),
        (lambda r: r.length(False), "ffffffff"),
        (lambda r: r.length(True), "00"),
        (lambda r: r.uvarint(), "8080808080 01"),
        (lambda r: r.tags(), "ffffffff0f"),
        (lambda r: r.tags(), "01 00 05 00"),
        (lambda r: r.seek(4), "0000"),
    ],
)
def test_damage_is_refused_and_not_allocated(
    read: Callable[[FrameReader], object], data: str
) -> None:
    """J.1.5: short buffer, null where none may be, a length that cannot be."""
    with pytest.raises(SchemaError, match=r"test: .* at offset \d+ of \d+ bytes"):
        read(FrameReader(bytes.fromhex(data), "test"))


def test_values_that_do_not_fit_are_refused_with_the_value() -> None:
    writer = FrameWriter()
    with pytest.raises(ValueError, match="70000"):
        writer.int16(70_000)
    with pytest.raises(ValueError, match="-1"):
        writer.uvarint(-1)
    with pytest.raises(ValueError, match="32767"):
        writer.string("x" * 32_768, True)
    with pytest.raises(ValueError, match="15"):
        writer.uuid(bytes(15))
    assert writer.body() == b""
