"""Structs: fields of fixed size are read and written together, and named one by one."""

from __future__ import annotations

import pytest

from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Schema, field, message
from fastprod.protocol.struct_type import skip_tags


@message
class Mixed:
    code: int = field(INT16)
    offset: int = field(INT64)
    name: str = field(STRING)
    flag: bool = field(BOOL)
    epoch: int = field(INT32)


MIXED = Schema(Mixed, flexible_from=1)
WHOLE = bytes.fromhex("0001 0000000000000002 0001 61 01 00000003")
PLACES = {"code": 0, "offset": 2, "name": 10, "flag": 13, "epoch": 14}


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_a_cut_names_the_field_that_it_is_in(size: int) -> None:
    name = [name for name, at in PLACES.items() if at <= size][-1]
    with pytest.raises(SchemaError) as caught:
        MIXED.decode(0, WHOLE[:size])
    assert (caught.value.path, caught.value.at) == (name, PLACES[name])
    assert MIXED.decode(0, WHOLE) == Mixed(code=1, offset=2, name="a", flag=True, epoch=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("code", 1 << 15), ("offset", None), ("name", 5), ("epoch", "x"), ("epoch", 1 << 31)],
)
def test_a_value_that_does_not_fit_is_refused_by_name(name: str, value: object) -> None:
    mixed = Mixed()
    setattr(mixed, name, value)
    with pytest.raises(SchemaError) as caught:
        MIXED.encode(1, mixed)
    assert caught.value.path == name


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"^code: .*has no attribute 'code'"):
        MIXED.encode(0, None)  # type: ignore[arg-type]


def test_a_missing_tag_section_is_named() -> None:
    with pytest.raises(SchemaError, match=r"^tagged fields: the bytes end .*, at byte 17$"):
        MIXED.decode(1, WHOLE[:10] + b"\2a" + WHOLE[13:])


def test_tags_are_skipped() -> None:
    """KIP-482."""
    assert skip_tags(bytes.fromhex("ff 02 00 01 aa 03 00 bb"), 1) == 7
    with pytest.raises(SchemaError, match="5 bytes stated, 1 left"):
        skip_tags(bytes.fromhex("01 00 05 aa"), 0)
