"""fastprod.protocol.schema: versions, lists, structs, nulls, tagged fields, damage (B-B1.2,
B-D5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastprod.protocol import field_types, schema
from fastprod.protocol.schema import Array, Schema, SchemaError, Struct, field, message


@message
class Item:
    name: str = field(schema.STRING)
    late: int = field(schema.INT32, "2+", default=-1)


@message
class Texts:
    """Version 3 on is flexible."""

    name: str | None = field(schema.STRING, nullable="1+")
    blob: bytes | None = field(schema.BYTES, nullable="1+", default=b"")
    numbers: list[int] | None = field(Array(schema.INT32), nullable="1+")
    items: list[Item] = field(Array(Item))
    only_once: int = field(schema.INT8, "2", default=9)
    middle: int = field(schema.INT8, "1-2", default=8)
    cursor: Item | None = field(Item, "3+", nullable="3+", default=None)
    epoch: int = field(schema.INT32, "3+", default=-1, tag=1)
    leader: Item = field(Item, "3+", tag=0)
    note: str | None = field(schema.STRING, "4+", nullable="4+", default=None, tag=7)


TEXTS = Schema(Texts, 3)


def written(schema: Schema[Any], version: int, value: Any) -> bytes:
    return b"".join(schema.encode(version, value))


def read(schema: Schema[Any], version: int, data: bytes) -> Any:
    return schema.decode(version, memoryview(bytearray(data)))


def test_a_message_that_says_nothing_has_defaults_of_its_own() -> None:
    one, other = Texts(), Texts()
    assert (one.name, one.numbers, one.cursor, one.leader) == ("", [], None, Item())
    assert one.items is not other.items
    assert one.leader is not other.leader
    assert not hasattr(one, "__dict__")


def test_a_list_that_many_messages_share_is_written_in_each_version_as_any_other() -> None:
    items = [Item(name="a", late=3), Item(name="b")]
    shared = schema.SharedList(items)
    for version in (1, 2, 3, 3, 1):
        plain = written(TEXTS, version, Texts(name="", items=items))
        assert written(TEXTS, version, Texts(name="", items=shared)) == plain
        assert written(TEXTS, version, Texts(name="x", items=shared)) != plain


def test_fields_exist_in_their_versions_only() -> None:
    value = Texts(items=[Item(name="a", late=5)], only_once=1, middle=2)
    sizes = {version: written(TEXTS, version, value) for version in range(4)}
    assert sizes[0] == bytes.fromhex("0000 00000000 00000000 00000001 0001 61")
    assert sizes[1] == sizes[0] + b"\2"
    assert sizes[2] == sizes[0] + b"\0\0\0\5\1\2"
    assert sizes[3] == bytes.fromhex("01 01 01 02 02 61 00000005 00 ff 00")
    old = read(TEXTS, 0, sizes[0])
    assert (old.items[0].late, old.only_once, old.middle) == (-1, 9, 8)


@pytest.mark.parametrize("version", [1, 3])
def test_null_is_not_empty(version: int) -> None:
    """P-J.1.1."""
    null = Texts(name=None, blob=None, numbers=None)
    empty = Texts(name="", blob=b"", numbers=[])
    assert written(TEXTS, version, null) != written(TEXTS, version, empty)
    assert read(TEXTS, version, written(TEXTS, version, null)) == null
    assert read(TEXTS, version, written(TEXTS, version, empty)) == empty


def test_null_is_refused_where_the_version_has_none() -> None:
    for value in (Texts(name=None), Texts(blob=None), Texts(numbers=None)):
        with pytest.raises(SchemaError, match="null, where this version has no null"):
            TEXTS.encode(0, value)
    with pytest.raises(SchemaError, match=r"^name: null, where this version has no null"):
        read(TEXTS, 0, b"\xff\xff")
    with pytest.raises(SchemaError, match=r"^name: length -2"):
        read(TEXTS, 1, b"\xff\xfe")
    with pytest.raises(SchemaError, match=r"^items\.name: null"):
        read(TEXTS, 3, bytes.fromhex("01 01 01 02 00 00000005 00 ff 00"))


def test_a_nullable_struct_follows_a_byte_that_says_so() -> None:
    there = Texts(cursor=Item(name="c", late=1))
    data = written(TEXTS, 3, there)
    assert data == bytes.fromhex("01 01 01 01 01 02 63 00000001 00 00")
    assert read(TEXTS, 3, data) == there
    with pytest.raises(SchemaError, match=r"^cursor: 2 where 1 says"):
        read(TEXTS, 3, data[:4] + b"\2" + data[5:])


def test_a_count_is_held_against_the_rest_of_the_frame() -> None:
    head = bytes.fromhex("0000 00000000")
    with pytest.raises(
        SchemaError, match=r"^numbers: 3 items stated, of at least 4 bytes each; 11"
    ):
        read(TEXTS, 0, head + b"\0\0\0\3" + bytes(11))
    with pytest.raises(SchemaError, match=r"^items: 6 items stated, of at least 2 bytes each; 11"):
        read(TEXTS, 0, head + bytes(4) + b"\0\0\0\6" + bytes(11))
    with pytest.raises(SchemaError, match=r"^items: 2 items stated, of at least 6 bytes each; 11"):
        read(TEXTS, 3, b"\1\1\1\3" + bytes(11))


def test_bytes_behind_the_message_are_refused() -> None:
    with pytest.raises(SchemaError, match="1 bytes behind the end of Texts"):
        read(TEXTS, 0, written(TEXTS, 0, Texts()) + b"\0")


def test_a_message_is_read_from_its_offset() -> None:
    value = Texts(name="a", numbers=[7])
    data = written(TEXTS, 0, value)
    assert TEXTS.decode(0, memoryview(b"head" + data), 4) == value
    assert b"".join(TEXTS.encode(0, value, b"head")) == b"head" + data


def test_tagged_fields_are_written_in_order_and_only_if_set() -> None:
    """KIP-482."""
    plain = "01 01 01 01 ff"
    assert written(TEXTS, 3, Texts()) == bytes.fromhex(plain + "00")
    value = Texts(epoch=5, leader=Item(name="x"))
    data = written(TEXTS, 3, value)
    leader = "02 78 ffffffff 00"
    assert data == bytes.fromhex(f"{plain} 02 00 07 {leader} 01 04 00000005")
    assert read(TEXTS, 3, data) == value
    noted = Texts(note="n")
    assert read(TEXTS, 4, written(TEXTS, 4, noted)) == noted
    assert written(TEXTS, 3, noted) == bytes.fromhex(plain + "00")


def test_unknown_tagged_fields_are_skipped_everywhere() -> None:
    """B-B1.2."""
    unknown = "02 05 03 aabbcc 8001 00"
    data = bytes.fromhex(
        f"01 01 01 02 02 61 00000005 {unknown} ff 03 01 04 00000006 05 00 ffffffff0f 02 0101"
    )
    assert read(TEXTS, 3, data) == Texts(items=[Item(name="a", late=5)], epoch=6)


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        ("01 05 04 aabbcc", r"^tagged fields: 4 bytes stated, 3 left"),
        ("01 01 05 0000000000", r"^tagged fields\.epoch: 5 bytes stated, 4 used"),
        ("01 01 03 000000 00", r"^tagged fields\.epoch: the bytes end inside of it"),
        ("01 00 02 0378", r"^tagged fields\.leader\.name: 2 bytes stated, 1 left"),
        ("ffffffff0f", r"^tagged fields: 8589934590 bytes stated, 0 left"),
        ("ff ff", r"^tagged fields: the bytes end inside of it"),
    ],
)
def test_a_damaged_tagged_field_is_refused(tags: str, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        read(TEXTS, 3, bytes.fromhex("01 01 01 01 ff" + tags))


def test_a_tagged_value_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match=r"^tagged fields\.leader\.late: "):
        TEXTS.encode(3, Texts(leader=Item(late=2**31)))


def test_a_version_is_compiled_once() -> None:
    compiled: list[int] = []

    class Counting(Struct):
        def codec(self, form: schema.Form, is_nullable: bool) -> schema.Codec:
            compiled.append(form.version)
            return super().codec(form, is_nullable)

    @message
    class Outer:
        inner: Item = field(Counting(Item))

    outer = Schema(Outer, None)
    for version in (0, 0, 1, 0, 1):
        outer.encode(version, Outer())
    assert compiled == [0, 1]


@message
class Names:
    names: list[str] = field(Array(schema.STRING))
    groups: list[Item] = field(Array(Item))


NAMES = Schema(Names, flexible_from=0, is_counted=True)
ANSWERED = Schema(Names, flexible_from=0)


def counted(count: int) -> bytes:
    """A compact list's count."""
    parts = bytearray()
    count += 1
    while count > 0x7F:
        parts.append(count & 0x7F | 0x80)
        count >>= 7
    parts.append(count)
    return bytes(parts)


def test_a_message_holds_no_more_items_than_anybody_needs() -> None:
    """Each is an object: a frame of 100 MB would become gigabytes."""
    most = field_types.MAX_ITEM_COUNT
    data = counted(most) + b"\1" * most + b"\1\0"
    assert len(read(NAMES, 0, data).names) == most
    with pytest.raises(SchemaError, match=rf"^names: .* items, over {most:,} in one message"):
        read(NAMES, 0, counted(most + 1) + b"\1" * (most + 1) + b"\1\0")
    # The next message begins from nothing.
    assert len(read(NAMES, 0, data).names) == most


def test_an_answer_may_hold_any_number_of_items() -> None:
    """A cluster's metadata has as many as the cluster has partitions."""
    count = field_types.MAX_ITEM_COUNT + 1
    data = counted(count) + b"\1" * count + b"\1\0"
    assert len(read(ANSWERED, 0, data).names) == count


def test_tags_come_in_order() -> None:
    """KIP-482: else one tag could be there a million times."""
    assert read(NAMES, 0, bytes.fromhex("01 01 02 05 01 00 06 01 00")) == Names()
    for tags in ("05 01 00 05 01 00", "06 01 00 05 01 00"):
        with pytest.raises(SchemaError, match=r"^tagged fields: tag 5 after tag [56]"):
            read(NAMES, 0, bytes.fromhex("01 01 02" + tags))
        assert read(ANSWERED, 0, bytes.fromhex("01 01 02" + tags)) == Names()


@pytest.mark.parametrize("frame", [bytes, memoryview])
def test_the_place_of_the_damage_is_told(frame: Callable[[bytes], bytes | memoryview]) -> None:
    """In bytes from the frame's begin, through lists and tagged fields."""
    for data, said in (
        ("01 01 01 02 04 616161 0000", r"^items\.late: the bytes end inside of it, at byte 9$"),
        ("01 01 01 02 09 6161 000000", r"^items\.name: 8 bytes stated, 5 left, at byte 5$"),
        ("01 01 01 01 ff 01 00 05 02 78 000000", r"leader\.late: the bytes .*, at byte 11$"),
        ("01 01 01 01 ff 02 00 07 02 78 ffffffff 00 01 02 0000", r"epoch: .*, at byte 18$"),
    ):
        with pytest.raises(SchemaError, match=said):
            TEXTS.decode(3, frame(b"!" + bytes.fromhex(data)), 1)
