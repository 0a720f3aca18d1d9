"""Message classes: constructors, defaults, equality, what is no message class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from fastprod.protocol.message_class import MANY, Maker
from fastprod.protocol.schema import (
    INT16,
    INT32,
    STRING,
    Array,
    Schema,
    field,
    fields_of,
    message,
    tuple_message,
)


@message
class Point:
    """A place."""

    x: int = field(INT32, default=7)
    names: list[str] = field(Array(STRING))

    def moved(self) -> Point:
        return Point(x=self.x + 1, names=self.names)


@tuple_message
class Row(NamedTuple):
    """One of many."""

    code: int = field(INT16)
    epoch: int = field(INT32, "1+", default=-1)
    nodes: Sequence[int] = field(Array(INT32, as_tuple=True))


@message
class Table:
    rows: list[Row] = field(Array(Row))


@message
class Nothing:
    """Not a single field."""


def test_a_class_has_slots_defaults_a_repr_and_its_own_methods() -> None:
    point = Point(names=["a"])
    assert (point.x, point.names, Point().names) == (7, ["a"], [])
    assert Point().names is not Point().names
    assert repr(point.moved()) == "Point(x=8, names=['a'])"
    assert not hasattr(point, "__dict__")
    assert (Point.__doc__, Point.__module__) == ("A place.", __name__)
    assert repr(Nothing()) == "Nothing()"


def test_values_are_compared_and_never_hashed() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point(x=1) != Nothing()  # type: ignore[comparison-overlap]
    assert Nothing() == Nothing()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point())


def test_a_constructor_takes_keywords_of_its_fields_only() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(z=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional argument"):
        Point(1)  # type: ignore[call-arg]


@pytest.mark.parametrize("count", [1, 3 * MANY])
def test_a_maker_fills_in_what_a_version_does_not_have(count: int) -> None:
    """With what it begins with, and with what it compiles."""
    cases: list[tuple[list[str], list[Any], Any]] = [
        (["names"], [["a"]], Point(names=["a"])),
        ([], [], Point()),
    ]
    for names, values, made in cases:
        few, many = Maker(Point, names), Maker(Point, names).make_many()
        for _ in range(count):
            assert few.make(values) == made
            assert many(values) == made
    maker = Maker(Point, ["x"])
    found = [maker.make([1]).names for _ in range(count)]
    assert len({id(names) for names in found}) == count
    cases = [
        (["code", "nodes"], [3, (1, 2)], Row(3, -1, (1, 2))),
        (["code", "epoch", "nodes"], [3, 4, ()], Row(3, 4, ())),
    ]
    for names, values, row in cases:
        assert Maker(Row, names).make(values) == Maker(Row, names).make_many()(values) == row


def test_a_constructor_is_the_same_before_and_after_it_is_compiled() -> None:
    @message
    class Mine:
        x: int = field(INT32, default=7)
        names: list[str] = field(Array(STRING))

    first = Mine.__init__
    made = [Mine(x=number) for number in range(3 * MANY)]
    assert Mine.__init__ is not first
    assert [each.x for each in made] == list(range(3 * MANY))
    assert len({id(each.names) for each in made}) == 3 * MANY
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Mine(z=1)  # type: ignore[call-arg]


def test_a_struct_can_be_a_tuple() -> None:
    assert Row() == Row(0, -1, ())
    assert Row()._replace(epoch=5).epoch == 5
    assert [row.name for row in fields_of(Row)] == ["code", "epoch", "nodes"]
    table = Table(rows=[Row(1, 2, (3,)), Row(4, 5, ())])
    tables = Schema(Table, flexible_from=1)
    for version in (1, 2):
        read = tables.decode(version, b"".join(tables.encode(version, table)))
        assert read == table
        assert all(type(row) is Row for row in read.rows)
    old = tables.decode(0, b"".join(tables.encode(0, table)))
    assert old.rows == [Row(1, -1, (3,)), Row(4, -1, ())]


def test_what_is_no_table_is_refused() -> None:
    class Plain:
        x: int = 0

    class Tagged(NamedTuple):
        x: int = field(INT32, tag=0)

    class Shared(NamedTuple):
        x: Sequence[int] = field(Array(INT32))

    with pytest.raises(TypeError, match=r"Plain\.x is not a field"):
        message(Plain)
    for kind in (Tagged, Shared):
        with pytest.raises(TypeError, match=f"{kind.__name__} has what a tuple's field cannot be"):
            tuple_message(kind)
